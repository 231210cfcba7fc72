package influx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/httpsink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

var one = uplink.Incarnation{Major: 1}

// server is influxd, reached through a proxy.
type server struct {
	*rig.Influx
	line   *rig.Proxy
	config Config
}

// Line is the way to the server.
func (n *server) Line() uplinktest.Line { return n.line }

func startServer(t testing.TB) *server {
	t.Helper()
	return serverIn(t, t.TempDir())
}

// serverIn starts a server whose data lies in dir.
func serverIn(t testing.TB, dir string) *server {
	t.Helper()
	far, err := rig.NewInflux(dir, "max-body-size = 65536\n")
	if errors.Is(err, rig.ErrNoTool) {
		t.Skipf("NOT TESTED against influxd: %v", err)
	}
	n := &server{Influx: far}
	uplinktest.Must(t, err)
	uplinktest.Must(t, n.Start())
	t.Cleanup(func() { n.Kill() })
	uplinktest.Must(t, n.MakeBucket())
	n.line, err = rig.NewProxy(n.Addr)
	uplinktest.Must(t, err)
	t.Cleanup(func() { n.line.Close() })
	n.config = Config{HTTP: httpsink.Default(), URL: "http://" + n.line.Addr(), Org: "o", Bucket: rig.InfluxBucket, Measurement: "results, all", Time: FromTime,
		TimeUnit: time.Millisecond, SignedOnly: true, Gzip: true, Columns: []Column{{Name: "the stream", From: FromStream, Tag: true}, {Name: "row", From: FromRow}, {Name: "seq", From: FromSeq},
			{Name: "generation", From: FromGeneration}}}
	return n
}

// Restart is kill -9.
func (n *server) Restart(t testing.TB) {
	t.Helper()
	uplinktest.Must(t, n.restart())
}

func (n *server) restart() error {
	n.Kill()
	return n.Start()
}

// query asks the server in its own language. Numbers are kept as they are written.
func (n *server) query(t testing.TB, q string) [][]any {
	t.Helper()
	rows, err := n.Query(q)
	uplinktest.Must(t, err)
	return rows
}

// Held reads the points of a stream back, in the order of time.
func (n *server) Held(t testing.TB, s uplink.Stream) (held []uplinktest.Held) {
	t.Helper()
	rows := n.query(t, `SELECT generation, seq, "row" FROM "results, all" WHERE "the stream" = '`+s.String()+`' ORDER BY time`)
	for _, r := range rows {
		h := uplinktest.Held{Payload: r[3].(string)}
		g, _ := r[1].(json.Number).Int64()
		q, _ := r[2].(json.Number).Int64()
		h.Generation, h.Seq, h.Last = uint64(g), uint64(q), uint64(q)
		held = append(held, h)
	}
	return held
}

func (n *server) Connect(t testing.TB, _ string) uplink.Endpoint {
	return &timed{Sink: n.sink(t, n.config)}
}

func (n *server) sink(t testing.TB, c Config) *Sink {
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// timed gives results an event time, which the suite's have not: the second.
type timed struct{ *Sink }

const base = 1_790_000_000_000

func (e *timed) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	c := *b
	c.Results = append([]pipeline.Result(nil), b.Results...)
	for i := range c.Results {
		c.Results[i].Time = base + int64(c.Results[i].Seq)*1000
	}
	return e.Sink.Send(ctx, &c)
}

func TestConformance(t *testing.T) {
	uplinktest.Run(t, func(t testing.TB) uplinktest.Far { return startServer(t) }, uplinktest.Options{NoProgress: true, NoChain: true})
}

func row(n int) string { return fmt.Sprintf(`{"n":%d}`, n) }

func wanted(n int) (rows []string) {
	for i := 1; i <= n; i++ {
		rows = append(rows, row(i))
	}
	return rows
}

// TestCutsAndKills: requests and answers are cut in the middle, answers are lost and the server is killed while results go through; two senders at once.
func TestCutsAndKills(t *testing.T) {
	n := startServer(t)
	proxy, err := rig.NewProxy(n.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 3))
	kills, strikes, next := 0, 1, int64(0)
	stop := uplinktest.Break(t, time.Millisecond, func() error {
		up, _ := proxy.Passed()
		if up < next {
			return nil
		}
		next = up + 1500 + rnd.Int64N(3000)
		switch rnd.IntN(4) {
		case 0:
			proxy.Reset()
		case 1:
			proxy.CutRequest(rnd.IntN(900))
		default:
			proxy.CutAnswer(rnd.IntN(60))
		}
		if strikes++; strikes%8 != 0 {
			return nil
		}
		kills++
		return n.restart()
	})
	n.config.URL, n.config.Gzip = "http://"+proxy.Addr(), false
	const rows = 600
	var senders sync.WaitGroup
	for i := range 2 {
		e := n.Connect(t, "")
		senders.Go(func() {
			q := uplinktest.NewQueue(1, 0)
			q.Add(wanted(rows)...)
			if err := uplinktest.Drive(t.Context(), q, e, uplink.Incarnation{Major: uint32(i + 1)}, 1, rows); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		})
	}
	senders.Wait()
	stop()
	if err := uplinktest.Exact(n.Held(t, uplinktest.Stream()), wanted(rows), nil); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	t.Logf("%d kills, %d connections reset", kills, proxy.Resets())
	if kills == 0 {
		t.Error("the server was never killed")
	}
}

// TestRefusedLineIsAlone: the server refuses one type, and keeps nothing or a part of such a batch. Only that result is a dead letter.
func TestRefusedLineIsAlone(t *testing.T) {
	for _, plant := range []planted{{}, {optimistic: true}} {
		n := startServer(t)
		c := n.config
		c.Columns = append(c.Columns, Column{Name: "v", From: "v"})
		s := n.sink(t, c)
		s.plant = plant
		q := uplinktest.NewQueue(1, 0)
		var want []string
		for i := 1; i <= 40; i++ {
			r := fmt.Sprintf(`{"v":%d}`, i)
			if i == 5 || i == 23 {
				r = `{"v":"text where a number was"}`
			}
			want = append(want, r)
			q.Add(r)
		}
		if err := uplinktest.Drive(t.Context(), q, &timed{s}, one, 1, 40); err != nil {
			t.Fatal(err)
		}
		bad := func(seq uint64) bool { return seq == 5 || seq == 23 }
		held := n.Held(t, uplinktest.Stream())
		gaps := q.Gaps()
		for _, seq := range slices.Sorted(maps.Keys(gaps)) {
			reason := gaps[seq]
			if !strings.Contains(reason, "conflict") {
				t.Errorf("sequence %d: %s", seq, reason)
			}
			held = append(held[:seq-1:seq-1], append([]uplinktest.Held{{Generation: 1, Seq: seq, Last: seq, Gap: true}}, held[seq-1:]...)...)
		}
		if err := uplinktest.Exact(held, want, bad); (err != nil) != plant.optimistic {
			t.Fatalf("%+v: %v, %d gaps", plant, err, len(q.Gaps()))
		}
	}
}

// TestDistinct: results of one series and millisecond overwrite each other, unless the sequence is in the time.
func TestDistinct(t *testing.T) {
	n := startServer(t)
	for i, c := range []struct {
		distinct bool
		plant    planted
		points   int
	}{{false, planted{}, 1}, {true, planted{}, 3}, {true, planted{indistinct: true}, 1}} {
		config := n.config
		config.Distinct = c.distinct
		s := n.sink(t, config)
		s.plant = c.plant
		stream := uplink.Stream{Gateway: "g", Pipeline: "p", Sink: fmt.Sprint(i)}
		if _, err := s.Open(t.Context(), stream, one, 1); err != nil {
			t.Fatal(err)
		}
		b := uplinktest.MakeBatch(stream, one, 1, 1, 3)
		for i := range b.Results {
			b.Results[i].Time = base
		}
		for range 2 { // a repeat changes nothing
			if _, err := s.Send(t.Context(), b); err != nil {
				t.Fatal(err)
			}
			if held := n.Held(t, stream); len(held) != c.points {
				t.Errorf("%+v: %d points", c, len(held))
			}
		}
	}
}

// TestRoundTrip: every type, and names and texts with what line protocol escapes, come back from the server as they were.
func TestRoundTrip(t *testing.T) {
	texts := []string{`a b`, `a,b`, `a=b`, `a\b`, `"q"`, `é, ü = ß`, `\,x`, `x\\ y`, `#`, ``}
	for _, plant := range []planted{{}, {unescaped: true}} {
		n := startServer(t)
		c := n.config
		c.Measurement, c.Time, c.TimeUnit = `m, x=y "z"`, "at", time.Second
		c.Columns = []Column{{Name: "ta,g =", From: "tag", Tag: true}, {Name: `f i=e,ld`, From: "text", Kind: pipeline.String}, {Name: "int", From: "int", Kind: pipeline.Int},
			{Name: "float", From: "float", Kind: pipeline.Float}, {Name: "bool", From: "bool", Kind: pipeline.Bool}, {Name: "open", From: "open"}, {Name: "doc", From: "doc", Kind: pipeline.JSON}}
		s := n.sink(t, c)
		s.plant = plant
		b := &uplink.Batch{Stream: uplinktest.Stream(), Generation: 1, Incarnation: one, First: 1, Last: uint64(len(texts))}
		for i, text := range texts {
			payload, err := json.Marshal(map[string]any{"tag": text, "text": text + "\nsecond line", "int": int64(9223372036854775807), "float": 3, "bool": true, "open": 7,
				"doc": []int{1, 2}, "at": 1000 + i})
			if err != nil {
				t.Fatal(err)
			}
			b.Results = append(b.Results, pipeline.Result{Seq: uint64(i + 1), Last: uint64(i + 1), Kind: pipeline.ResultData, Payload: payload})
		}
		ans, err := s.Send(t.Context(), b)
		if plant.unescaped {
			if err == nil {
				t.Error("tags without escapes were not found")
			}
			continue
		}
		if err != nil || len(ans.Rejected) > 0 {
			t.Fatal(err, ans)
		}
		rows := n.query(t, `SELECT "ta,g =", "f i=e,ld", "int", "float", "bool", "open", doc FROM "m, x=y \"z\"" ORDER BY time`)
		if len(rows) != len(texts) {
			t.Fatal(rows)
		}
		for i, r := range rows {
			tag := any(texts[i])
			if texts[i] == "" {
				tag = nil
			}
			want := []any{json.Number(fmt.Sprint(int64(1000+i) * 1e9)), tag, texts[i] + "\nsecond line", json.Number("9223372036854775807"), json.Number("3"), true, json.Number("7"), "[1,2]"}
			if fmt.Sprint(r) != fmt.Sprint(want) {
				t.Errorf("%v, want %v", r, want)
			}
		}
	}
}

// TestWhatCannotBeAPoint is named, one by one.
func TestWhatCannotBeAPoint(t *testing.T) {
	c := Config{HTTP: httpsink.Default(), URL: "http://127.0.0.1:9", Bucket: "b", Measurement: "m", Time: "at", TimeUnit: time.Second,
		Columns: []Column{{Name: "t", From: "t", Tag: true}, {Name: "i", From: "i", Kind: pipeline.Int}, {Name: "u", From: "u", Kind: pipeline.Uint}, {Name: "f", From: "f", Kind: pipeline.Float}, {Name: "x", From: "x"}}}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	for payload, want := range map[string]string{
		`{"at":1,"i":1}`: "m i=1i 1000000000\n", `{"at":1,"u":18446744073709551615}`: "m u=18446744073709551615u 1000000000\n",
		`{"at":-1,"f":3,"t":"a b"}`: "m,t=a\\ b f=3 -1000000000\n", `{"at":1,"x":true,"i":null}`: "m x=true 1000000000\n", `{"at":1,"x":1.5e3,"t":7}`: "m,t=7 x=1.5e3 1000000000\n",
		`{"i":1}`: "time column", `{"at":1.5,"i":1}`: "time column", `{"at":9223372037,"i":1}`: "range", `{"at":1}`: "none of the fields", `{"at":1,"i":null}`: "none of the fields",
		`{"at":1,"i":9223372036854775808}`: "whole numbers", `{"at":1,"i":1.5}`: "whole numbers", `{"at":1,"u":-1}`: "from 0", `{"at":1,"f":1e999}`: "finite",
		`{"at":1,"x":9007199254740993}`: "exactly", `{"at":1,"i":1,"t":"a\nb"}`: "control character", `{"at":1,"i":1,"t":"a\\"}`: "backslash", `{"at":1,"i":1,"t":[1]}`: "single value",
		`{"at":1,"i":true}`: "takes int", `[1]`: "no JSON object", `{"at":1,`: "no JSON object",
	} {
		line, err := s.appendLine(nil, &uplink.Batch{}, &pipeline.Result{Payload: []byte(payload), Time: pipeline.NoTime})
		if err == nil && string(line) != want || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v; want %q", payload, line, err, want)
		}
	}
}

// TestAnswers: what the server may say, and what the sender makes of it.
func TestAnswers(t *testing.T) {
	addr, err := rig.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	status, text := 0, ""
	server := &http.Server{Addr: addr, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("Authorization") != "Token secret-1" {
			t.Errorf("authorization is %q", r.Header.Get("Authorization"))
		}
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	})}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.ListenAndServe() })
	defer func() { _ = server.Close(); wg.Wait() }()
	if err := rig.WaitListening(addr, nil); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret-1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := Config{HTTP: httpsink.Default(), URL: "http://" + addr, Org: "o", Bucket: "b", Measurement: "m", Time: FromTime, TimeUnit: time.Millisecond, Columns: []Column{{Name: "n", From: "n"}}}
	c.HTTP.TokenFile = token
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	e := &timed{s}
	for _, c := range []struct {
		status int
		text   string
		want   string
		is     error
	}{
		{204, "", "", nil}, {200, "<html>welcome</html>", "not that of InfluxDB", nil}, {400, `{"error":"partial write"}`, "partial write", uplink.ErrRejected},
		{422, "{}", "422", uplink.ErrRejected}, {413, "", "413", uplink.ErrTooLarge}, {404, `{"code":"not found","message":"bucket \"b\" not found"}`, "bucket", nil},
		{401, "unauthorized", "unauthorized", nil}, {500, "disk full", "disk full", nil}, {409, "", "409", nil},
	} {
		status, text = c.status, c.text
		_, err := e.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, 1, 2))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) || c.is != nil && !errors.Is(err, c.is) ||
			c.is == nil && (errors.Is(err, uplink.ErrRejected) || errors.Is(err, uplink.ErrFenced) || errors.Is(err, uplink.ErrHole)) {
			t.Errorf("%d: %v", c.status, err)
		}
	}
	var wait *uplink.RetryAfter
	status, text = 429, "slow down"
	if _, err := e.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, 1, 2)); !errors.As(err, &wait) || wait.Wait != 7*time.Second {
		t.Errorf("429: %v", err)
	}
}
