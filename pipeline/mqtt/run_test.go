package mqtt

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/weirstream/weir/pipeline"
)

// chunkConn gives a stream in pieces of at most size bytes, then EOF; 0 = as much as asked for.
type chunkConn struct {
	net.Conn
	data []byte
	size int
}

func (c *chunkConn) Read(b []byte) (int, error) {
	if len(c.data) == 0 {
		return 0, io.EOF
	}
	if c.size > 0 && len(b) > c.size {
		b = b[:c.size]
	}
	n := copy(b, c.data)
	c.data = c.data[n:]
	return n, nil
}
func (c *chunkConn) Write(b []byte) (int, error)      { return len(b), nil }
func (c *chunkConn) SetWriteDeadline(time.Time) error { return nil }
func (c *chunkConn) Close() error                     { return nil }

// randomStream is what a broker with rough manners sends: repeated ids, copies with and without DUP, retained messages, all QoS,
// ill-formed topics, payloads that are too large, PUBRELs between.
func randomStream(random *rand.Rand, messages int) (data []byte) {
	var sent [][]byte
	id, ids := uint16(random.IntN(65535)), uint16(1+random.IntN(40))
	for n := range messages {
		if id++; id == 0 || random.IntN(10) == 0 {
			id = 1 + uint16(random.IntN(int(ids)))
		}
		payload := fmt.Append(nil, n)
		if random.IntN(3) == 0 {
			payload = fmt.Append(nil, random.IntN(3))
		}
		name := fmt.Sprint("t/", random.IntN(3))
		switch random.IntN(20) {
		case 0:
			name = "t/\xff"
		case 1:
			payload = make([]byte, 200)
		case 2:
			name = "slow/x"
		case 3:
			data = append(data, packetPubrel<<4|2, 2, byte(id>>8), byte(id))
		}
		qos := byte(random.IntN(3))
		p := encodePublish(name, qos, id, qos > 0 && random.IntN(4) == 0, random.IntN(8) == 0, payload)
		for range 1 + random.IntN(8)/7 {
			data = append(data, p...)
		}
		if sent = append(sent, p); len(sent) > 40 && random.IntN(4) == 0 { // about as old as the window is long
			data = append(data, sent[len(sent)-20-random.IntN(15)]...)
		}
	}
	return data
}

// taken is everything that the tap makes of a stream.
type taken struct {
	Entries []pipeline.Entry
	Acks    []waitingAck
	Table   map[uint16]known
	Order   idOrder
	Stats   Stats
}

func takeStream(t *testing.T, data []byte, size int, f faults) (r taken) {
	j := newMemJournal()
	j.hold(true)
	defer j.die(errKilled)
	c := testConfig("mqtt://127.0.0.1:1", 1, "t/#", "slow/#")
	c.DedupWindow = 30
	c.Sources[0].MaxMessage, c.Sources[1].MaxBytesPerDay = 100, 20
	s, err := NewSession(c, j, slog.New(slog.DiscardHandler), Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	s.fault = f
	tp := newTap(s, &chunkConn{data: data, size: size})
	for err == nil {
		err = tp.packet()
	}
	if !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	r.Entries, r.Acks, r.Order, r.Stats = j.all(), tp.acks.queue, s.order, s.Stats()
	r.Table = map[uint16]known{}
	s.table.ids(func(id uint16) { r.Table[id] = s.table.lookup(id) })
	r.Stats.Since = time.Time{}
	return r
}

// differ tells how a stream that comes in one piece is taken otherwise than one that comes byte by byte.
func differ(t *testing.T, seed uint64, f faults) string {
	random := rand.New(rand.NewPCG(seed, 9))
	data := randomStream(random, 400)
	one, all := takeStream(t, data, 1, faults{}), takeStream(t, data, 0, f)
	if diff := cmp.Diff(one, all, cmp.AllowUnexported(waitingAck{}, known{}, idOrder{})); diff != "" {
		return fmt.Sprintf("seed %d: %s", seed, diff)
	}
	return ""
}

// TestRunsChangeNothing: how many packets lie in the buffer at once shows nowhere.
func TestRunsChangeNothing(t *testing.T) {
	for seed := range uint64(30) {
		if wrong := differ(t, seed, faults{}); wrong != "" {
			t.Fatal(wrong)
		}
	}
	for name, f := range map[string]faults{"an id twice in a run": {runRepeats: true}, "ages do not count the run": {runAges: true}} {
		found := false
		for seed := uint64(0); seed < 100 && !found; seed++ {
			found = differ(t, seed, f) != ""
		}
		if !found {
			t.Errorf("the planted fault was not found: %s", name)
		}
	}
}

// TestRunOnFullJournal: what was taken before the journal was full is entered and acknowledged, the rest is not.
func TestRunOnFullJournal(t *testing.T) {
	j := newMemJournal()
	defer j.die(errKilled)
	j.hold(true)
	j.limit = 3
	s, err := NewSession(testConfig("mqtt://127.0.0.1:1", 1), j, slog.New(slog.DiscardHandler), Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	var data []byte
	for id := uint16(1); id <= 5; id++ {
		data = append(data, encodePublish("t/1", 1, id, false, false, []byte{byte(id)})...)
	}
	tp := newTap(s, &chunkConn{data: data})
	var full sync.WaitGroup
	over := make(chan struct{})
	full.Go(func() {
		select {
		case e := <-tp.events:
			if e == tapFull {
				tp.Close()
			}
		case <-over:
		}
	})
	err = tp.packet()
	close(over)
	if full.Wait(); !errors.Is(err, errTapClosed) {
		t.Errorf("%v", err)
	}
	if len(j.all()) != 3 || len(tp.acks.queue) != 3 || s.counters.journaled.Load() != 3 || s.table.count != 3 {
		t.Errorf("%d records, %d acknowledgements, count %d", len(j.all()), len(tp.acks.queue), s.table.count)
	}
	if s.table.lookup(3).pos != 3 || s.table.lookup(4).present {
		t.Error("the table does not hold what the journal took")
	}
}

func TestRouterForgetsAndGrows(t *testing.T) {
	r := newRouter([]string{"a/+", "b/#"})
	find := func(name string, want int) *route {
		t.Helper()
		e := r.find([]byte(name))
		if e.source != want {
			t.Fatalf("%q: source %d, want %d", name, e.source, want)
		}
		return e
	}
	for range 2 {
		for i := range 2 * routesMax {
			find(fmt.Sprint("a/", i), 0)
			find(fmt.Sprint("b/", i, "/c"), 1)
			find(fmt.Sprint("c/", i), -1)
		}
	}
	if r.used > routesMax || len(r.routes) != 2*routesMax {
		t.Errorf("%d topics in %d places", r.used, len(r.routes))
	}
	if e := find("b/+", 1); e.fault == "" || e.topic != "" {
		t.Errorf("an ill-formed topic is %+v", *e)
	}
	if e := find("", -1); e.fault == "" {
		t.Error("an empty topic is fine")
	}
	name := []byte("a/same")
	r.find(name)
	copy(name, "x/none") // the buffer is read into again
	find("a/same", 0)
	// All places taken: asked anew each time, never wrong.
	h := r.find([]byte("a/collides")).hash
	for i := range uint64(routeProbes) {
		r.routes[(h+i)&uint64(len(r.routes)-1)] = route{topic: "other", hash: 1, source: 1}
	}
	find("a/collides", 0)
	find("a/collides", 0)
}
