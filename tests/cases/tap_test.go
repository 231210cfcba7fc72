package cases

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
)

const tapped = `
sources:
  s:
    mqtt: {broker: local, topic: t/+}
    decode: json
    fields: {id: int, pad: string}
pipelines:
  p:
    steps:
      - {uid: even, from: s, filter: "id % 2 == 0"}
    sinks:
      - {uid: out, from: even, commit: immediate, file: {path: out.jsonl}}
`

// tapLine is what weir tap prints: a row, or how many it was too slow for.
type tapLine struct {
	From     string         `json:"from"`
	Position uint64         `json:"position"`
	Row      map[string]any `json:"row"`
	Dropped  int            `json:"dropped"`
}

// tap starts weir tap in a process of its own, and gives a function that reads its next line, io.EOF behind the last; nobody reads before.
func (s *site) tap(args ...string) (next func() (tapLine, error), end func()) {
	s.t.Helper()
	cmd := exec.Command(weir, append([]string{"tap", "--socket", s.socket()}, args...)...)
	out, err := cmd.StdoutPipe()
	s.must(err)
	s.must(cmd.Start())
	end = func() { cmd.Process.Kill(); cmd.Wait() }
	s.t.Cleanup(end)
	lines := bufio.NewReader(out)
	return func() (l tapLine, err error) {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return l, io.EOF
		}
		if err := json.Unmarshal(text, &l); err != nil {
			return l, fmt.Errorf("%s: %w", text, err)
		}
		return l, nil
	}, end
}

// put publishes messages until stop says so, so that a tap that is being opened sees some.
func (s *site) put(from, to int, pad string) {
	for id := from; id <= to; id++ {
		s.broker.Publish("t/a", 1, false, fmt.Appendf(nil, `{"id":%d,"pad":"%s"}`, id, pad))
	}
}

// TestTapOfALivePipeline: weir tap, its socket and a running agent, each a process of its own. Rows pass by as they are; a reader that does not read
// is told how many rows it missed; the pipeline knows nothing of either.
func TestTapOfALivePipeline(t *testing.T) {
	s := newSite(t, tapped)
	s.startReady()
	next, end := s.tap("p", "even", "--count", "50")
	published := 0
	var rows []tapLine
	var failed error
	read := make(chan struct{})
	go func() { // ends with the tap, which ends with the test
		defer close(read)
		var l tapLine
		for l, failed = next(); failed == nil; l, failed = next() {
			rows = append(rows, l)
		}
	}()
	t.Cleanup(func() { end(); <-read })
	for reading := true; reading; { // the tap opens some time; by few rows, so that none is dropped while its process waits for a processor
		s.put(published+1, published+20, "x")
		published += 20
		s.handled()
		select {
		case <-read:
			reading = false
		default:
		}
	}
	if end(); !errors.Is(failed, io.EOF) {
		t.Fatal(failed)
	}
	if len(rows) != 50 {
		t.Fatalf("%d rows, want 50", len(rows))
	}
	for i, l := range rows {
		if first := rows[0].Row["id"].(float64); l.From != "even" || l.Position == 0 || l.Row["id"] != first+float64(2*i) {
			t.Fatalf("row %d is %+v behind %v", i, l, first)
		}
	}

	slow, end := s.tap("p", "even") // nobody reads
	pad := strings.Repeat("p", 2000)
	for range 10 { // 10 MB of rows: more than all the buffers on the way
		s.put(published+1, published+1000, pad)
		published += 1000
		s.handled()
	}
	s.settled()
	dropped, seen, last := 0, 0, 0.0
	for dropped == 0 {
		l, err := slow()
		if err != nil {
			t.Fatalf("the tap ended behind %d rows and told of nothing dropped: %v", seen, err)
		}
		dropped += l.Dropped
		if l.Row != nil {
			seen++
			if id := l.Row["id"].(float64); id <= last {
				t.Fatalf("row %v comes behind %v", id, last)
			} else {
				last = id
			}
		}
	}
	end()
	t.Logf("%d rows seen before the first of %d that were dropped", seen, dropped)
	if seen == 0 || seen+dropped > 5000 {
		t.Errorf("%d rows and %d dropped of 5000 that passed at most", seen, dropped)
	}

	out := s.sinkData("out.jsonl")
	if len(out) != published/2 {
		t.Errorf("the sink has %d rows of %d", len(out), published/2)
	}
	for i, text := range out {
		if want := fmt.Sprintf(`{"id":%d,`, 2*i+2); !strings.HasPrefix(text, want) {
			t.Fatalf("row %d of the sink is %.40s, want %s", i, text, want)
		}
	}
	s.eventually("the pipeline runs as ever", func(st api.Status) bool {
		return st.Pipelines[0].State == "running" && st.Pipelines[0].Restarts == 0 && st.Pipelines[0].Balanced
	})
	s.stop()
}
