package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
)

// tapLine is a line of a tap.
type tapLine struct {
	From     string         `json:"from"`
	Position uint64         `json:"position"`
	Time     *int64         `json:"time"`
	Row      map[string]any `json:"row"`
	Tap, End string
}

// TestTapShowsRowsOfStepsAndSources: columns by name, event time, position; in one instance and in three, inside a region too.
func TestTapShowsRowsOfStepsAndSources(t *testing.T) {
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n, " instances"), func(t *testing.T) {
			b := keyedBench(t, "log", "exactly-once")
			b.text = strings.Replace(b.text, "parallelism: N", fmt.Sprint("parallelism: ", n), 1)
			b.start()
			defer b.halt()
			b.await("start", func(s *api.Status) bool { return s.Pipelines[0].State == "running" })
			told := map[string][]tapLine{}
			open := make(chan struct{})
			done := make(chan error, 1)
			go func() {
				done <- b.agent.TapPipeline(t.Context(), "p", api.TapOptions{Steps: []string{"moved", "w"}, Sources: true, Count: 300}, func(text []byte, _ bool) error {
					var l tapLine
					if err := json.Unmarshal(text, &l); err != nil {
						return fmt.Errorf("%s: %w", text, err)
					}
					if l.Tap != "" {
						close(open)
						return nil
					}
					told[l.From] = append(told[l.From], l)
					return nil
				})
			}()
			select {
			case <-open:
			case err := <-done:
				t.Fatalf("the tap ended before it was open: %v", err)
			}
			b.putKeys(1, 200)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if len(told["s"]) < 100 || len(told["moved"]) < 50 {
				t.Fatalf("told %d of the source, %d of the step", len(told["s"]), len(told["moved"]))
			}
			for i, l := range told["moved"] {
				if l.Row["id"] != float64(i+1) || l.Row["k"] != fmt.Sprintf("k%d", (i+1)%17) || l.Position == 0 || l.Time == nil || *l.Time != 1767225600000+int64(i+1) {
					t.Fatalf("row %d of moved is %+v", i, l)
				}
			}
			for _, l := range told["w"] {
				if _, ok := l.Row["n"].(float64); !ok {
					t.Fatalf("a window is %+v", l)
				}
			}
		})
	}
}

func TestATapEndsWithItsPipeline(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	b.start()
	defer b.halt()
	b.await("start", func(s *api.Status) bool { return s.Pipelines[0].State == "running" })
	for name, o := range map[string]api.TapOptions{"p": {Steps: []string{"al"}}, "q": {Steps: []string{"all"}}} {
		if err := b.agent.TapPipeline(t.Context(), name, o, nil); !errors.Is(err, api.ErrNotFound) {
			t.Errorf("%s %v: %v", name, o, err)
		}
	}
	open, done := make(chan struct{}), make(chan error, 1)
	var last string
	go func() {
		done <- b.agent.TapPipeline(t.Context(), "p", api.TapOptions{Steps: []string{"all"}}, func(l []byte, _ bool) error {
			if last = string(l); strings.Contains(last, "open") {
				close(open)
			}
			return nil
		})
	}()
	select {
	case <-open:
	case err := <-done:
		t.Fatalf("the tap ended before it was open: %v", err)
	}
	if err := b.agent.RestartPipeline(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil || !strings.Contains(last, `"end"`) {
		t.Errorf("last line %s, error %v", last, err)
	}
	b.await("start", func(s *api.Status) bool { return s.Pipelines[0].State == "running" })
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.agent.TapPipeline(gone, "p", api.TapOptions{Steps: []string{"all"}}, func([]byte, bool) error { return nil }); err != nil {
		t.Errorf("a client that left: %v", err)
	}
}
