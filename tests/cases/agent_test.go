package cases

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirstream/weir/agent/api"
)

// upstream is a scripted endpoint that knows nothing of weir.
type upstream struct {
	*httptest.Server
	mu     sync.Mutex
	answer func(n int, rows []string) (status int, body string)
	keys   []string // of each request
	taken  []string
}

func newUpstream(t *testing.T, answer func(n int, rows []string) (int, string)) *upstream {
	u := &upstream{answer: answer}
	u.Server = httptest.NewServer(http.HandlerFunc(u.serve))
	t.Cleanup(u.Close)
	return u
}

func (u *upstream) serve(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	u.mu.Lock()
	defer u.mu.Unlock()
	rows := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	status, text := u.answer(len(u.keys), rows)
	u.keys = append(u.keys, r.Header.Get("Idempotency-Key"))
	if status < 300 {
		u.taken = append(u.taken, rows...)
	}
	w.WriteHeader(status)
	io.WriteString(w, text)
}

func passOn(topic, url string) string {
	return `
sources:
  in: {mqtt: {broker: local, topic: "` + topic + `"}}
pipelines:
  pass:
    start: earliest
    checkpoint: {interval: 1h}    # the test asks for one: then everything leaves as one batch
    sinks:
      - {uid: up, from: in, http: {url: "` + url + `", protocol: plain}}
`
}

// deadLetters reads those of a pipeline.
func (s *site) deadLetters(pipeline string) (all []json.RawMessage) {
	s.t.Helper()
	s.must(api.Dial(s.socket()).DeadLetters(s.t.Context(), pipeline, api.DeadQuery{Limit: 100}, func(l api.DeadLetter) error {
		all = append(all, l.Letter)
		return nil
	}))
	return all
}

func TestCase28_OneBadRecord(t *testing.T) {
	bad := func(rows []string) int {
		return slices.IndexFunc(rows, func(r string) bool { return strings.Contains(r, `"seq":2,`) })
	}
	for name, answer := range map[string]func(n int, rows []string) (int, string){
		"named": func(_ int, rows []string) (int, string) {
			if i := bad(rows); i >= 0 {
				return 422, fmt.Sprintf(`{"rejected":[{"index":%d,"reason":"v is no number"}]}`, i)
			}
			return 204, ""
		},
		"not named": func(_ int, rows []string) (int, string) {
			if bad(rows) >= 0 {
				return 422, ""
			}
			return 204, ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t, answer)
			s := newSite(t, passOn("b/+", u.URL))
			s.sendCase28()
			var got []int
			for _, r := range u.taken {
				got = append(got, decode[struct{ Seq int }](t, r).Seq)
			}
			if want := expect[[]int](t, "28", "delivered"); !slices.Equal(got, want) {
				t.Errorf("delivered %v, want %v", got, want)
			}
			dead := s.deadLetters("pass")
			if len(dead) != 1 || !strings.Contains(string(dead[0]), `text`) {
				t.Errorf("dead letters %s, want that of seq 2", dead)
			}
		})
	}
}

func TestCase28_NotNow(t *testing.T) {
	u := newUpstream(t, func(n int, _ []string) (int, string) {
		if n < 2 {
			return 503, ""
		}
		return 204, ""
	})
	s := newSite(t, passOn("b/+", u.URL))
	s.sendCase28()
	if len(u.keys) != 3 || u.keys[0] == "" || u.keys[1] != u.keys[0] || u.keys[2] != u.keys[0] || len(u.taken) != 5 {
		t.Errorf("requests with keys %v took %v", u.keys, u.taken)
	}
}

func (s *site) sendCase28() {
	s.t.Helper()
	s.startReady()
	for _, l := range lines(s.t, "28") {
		if l.Op == "" {
			s.publish(l)
		}
	}
	s.handled()
	s.checkpoint("pass")
	s.settled()
}

// TestCase16: the upstream takes 128 KiB at most.
func TestCase16_LargeMessages(t *testing.T) {
	const upstreamMax = 128 << 10
	u := newUpstream(t, func(_ int, rows []string) (int, string) {
		if len(strings.Join(rows, "\n")) > upstreamMax {
			return 413, ""
		}
		return 204, ""
	})
	s := newSite(t, passOn("img/+", u.URL))
	s.startReady()
	var want [][32]byte
	messages := lines(t, "16")
	for _, l := range messages {
		s.publish(l)
		if len(l.bytes()) <= upstreamMax {
			want = append(want, sha256.Sum256(l.bytes()))
		}
	}
	s.handled()
	s.checkpoint("pass")
	s.settled()
	var got [][32]byte
	for _, r := range u.taken {
		got = append(got, sha256.Sum256([]byte(r)))
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d records arrived, want the %d that fit, whole", len(got), len(want))
	}
	if dead := s.deadLetters("pass"); len(dead)+len(got) != len(messages) {
		t.Errorf("%d dead letters and %d delivered of %d", len(dead), len(got), len(messages))
	}
	if n := s.broker.Session(client).Connects; n != 1 {
		t.Errorf("%d connects, want 1", n)
	}
}

// TestCase12: the filters of a kept session follow the config.
func TestCase12_ChangedFilters(t *testing.T) {
	config := func(filters []string) string {
		sources, pipelines := "sources:\n", "pipelines:\n"
		for _, f := range filters {
			n := f[:1]
			sources += "  " + n + `: {mqtt: {broker: local, topic: "` + f + "\"}}\n"
			pipelines += "  p-" + n + ":\n    start: earliest\n    checkpoint: {interval: 50ms}\n    sinks: [{uid: up, from: " + n + ", file: {path: " + n + ".jsonl}}]\n"
		}
		return sources + pipelines
	}
	s := newSite(t, "")
	for _, l := range lines(t, "12") {
		switch l.Op {
		case "start":
			s.body = config(l.Filters)
			s.startReady()
		case "stop":
			s.settled()
			s.stop()
		case "":
			s.publish(l)
		}
	}
	s.settled()
	var got []int
	for _, name := range []string{"a", "b", "c"} {
		for _, r := range s.sinkData(name + ".jsonl") {
			got = append(got, decode[struct{ Seq int }](t, r).Seq)
		}
	}
	slices.Sort(got)
	if want := []int{1, 2, 3, 6, 8}; !slices.Equal(got, want) { // the choice: 4 is acknowledged and counted as unrouted
		t.Errorf("upstream got %v, want %v", got, want)
	}
	s.eventually("4 is counted", func(st api.Status) bool { return st.Sessions[0].Counters["unrouted"] == 1 })
	s.broker.Forget(client)
	s.eventually("the lost session is told", func(st api.Status) bool {
		return st.Sessions[0].Counters["session_lost"] == 1 && st.Sessions[0].State == "ready"
	})
}

func case20(pipeline, file string) string {
	return `
sources:
  c: {mqtt: {broker: local, topic: "c/+"}, fields: {k: string}}
pipelines:
  ` + pipeline + `:
    checkpoint: {interval: 50ms}
    steps:
      - {uid: first, from: c, dedup: {key: [k]}, ttl: 1d}
    sinks:
      - {uid: up, from: first, file: {path: ` + file + `}}
`
}

// TestCase20: a pipeline that was deleted and made anew under the same name begins with empty state. Its state is a dedup table: with
// the old one the last message would be dropped as a copy.
func TestCase20_SameNameNewState(t *testing.T) {
	s := newSite(t, case20("r1", "first.jsonl"))
	s.startReady()
	created := 0
	for _, l := range lines(t, "20") {
		switch {
		case l.Op == "" && l.N < 3:
			s.publish(l)
			s.handled()
		case l.Op == "snapshot":
			s.checkpoint("r1")
			s.settled()
		case l.Op == "delete_rule":
			s.stop()
			s.body = case20("other", "other.jsonl")
			s.startReady()
			s.stop()
		case l.Op == "create_rule" && l.Name == "r1":
			if created++; created == 2 {
				s.body = case20("r1", "second.jsonl")
				s.startReady()
			}
		}
	}
	s.checkpoint("r1")
	s.settled()
	if first, second := s.sinkData("first.jsonl"), s.sinkData("second.jsonl"); len(first) != 1 || len(second) != expect[int](t, "20", "count after the last message") {
		t.Errorf("first life %v, second life %v", first, second)
	}
}

// TestCase20_Names: each is taken or refused with the reason, before anything is touched; no path is made from one.
func TestCase20_Names(t *testing.T) {
	s := newSite(t, "")
	var taken []string
	for _, l := range lines(t, "20") {
		if l.Op != "create_rule" || l.Name == "r1" {
			continue
		}
		quoted, _ := json.Marshal(l.Name)
		file := filepath.Join(s.dir, "check.yaml")
		s.must(os.WriteFile(file, []byte("state_dir: "+s.dir+"/state\nbrokers: {local: {url: \"tcp://127.0.0.1:1\"}}"+case20(string(quoted), "x.jsonl")), 0o644))
		out, err := exec.Command(weir, "check", "-c", file).CombinedOutput()
		switch exit, _ := err.(*exec.ExitError); {
		case err == nil:
			taken = append(taken, l.Name)
		case exit == nil || exit.ExitCode() != 2 || !strings.Contains(string(out), "check.yaml:6:"):
			t.Errorf("name %q: %v, %s", l.Name, err, out)
		}
	}
	if want := []string{"0000002", "CON"}; !slices.Equal(taken, want) { // docs/config.md
		t.Errorf("names taken %q, want %q", taken, want)
	}
	says(t, "config.md", "No path is ever made from a name, so `CON` and `0000002` are fine")
	for _, name := range taken {
		s.body = case20(`"`+name+`"`, "y"+name+".jsonl")
		s.startReady()
		s.stop()
	}
	err := filepath.WalkDir(s.dir, func(path string, _ os.DirEntry, err error) error {
		for _, name := range taken {
			if filepath.Base(path) == name {
				t.Errorf("%s is named after a pipeline", path)
			}
		}
		return err
	})
	s.must(err)
}

// TestCase27_EndToEnd: the windows of case 27 through the agent, killed in between, and delivered to an upstream.
func TestCase27_EndToEnd(t *testing.T) {
	u := newUpstream(t, func(int, []string) (int, string) { return 204, "" })
	s := newSite(t, `
sources:
  e:
    mqtt: {broker: local, topic: "E/{part}"}
    fields: {msg_id: string, ts: int, v: int}
    time: {field: ts, unit: ms, out_of_orderness: 4s}
pipelines:
  e:
    start: earliest
    checkpoint: {interval: 1h}
    steps:
      - {uid: once, from: e, dedup: {key: [msg_id]}, ttl: 1h}
      - {uid: seconds, from: once, window: {tumbling: 1s}, aggregate: {count: count(), sum: sum(v)}}
    sinks:
      - {uid: up, from: seconds, http: {url: "`+u.URL+`", protocol: plain}}
`)
	s.startReady()
	for _, l := range lines(t, "27") {
		s.publish(l)
		switch l.N {
		case 3:
			s.handled()
			s.checkpoint("e")
		case 7:
			s.handled()
			s.agent.Kill()
			s.startReady()
		}
	}
	s.broker.Publish("E/end", 1, false, []byte(`{"msg_id":"end","ts":1767225700000,"v":0}`)) // moves time on: a live stream has no end
	s.handled()
	s.checkpoint("e")
	s.settled()
	compareWindows(t, windowRows(t, u.taken), expect[[]wantWindow](t, "27", "tumbling 1s (out-of-orderness 4s)"))
}
