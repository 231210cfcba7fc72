package cases

import (
	"os"
	"strings"
	"testing"
)

type stateRow struct {
	Start int64 `json:"window_start"`
	End   int64 `json:"window_end"`
	First int64
	Last  int64
	Count int
}

type wantState struct {
	First int64 `json:"first_ms"`
	Last  int64 `json:"last_ms"`
	Count int
}

const member21 = "state window begin a=false end a=true"

func compare21(t *testing.T, rows []string) {
	t.Helper()
	want := expect[[]wantState](t, "21", member21)
	if len(rows) != len(want) {
		t.Fatalf("%d windows %v, want %d", len(rows), rows, len(want))
	}
	for i, w := range want {
		g := decode[stateRow](t, rows[i])
		if g.First != w.First || g.Last != w.Last || g.Count != w.Count || g.Start != w.First || g.End != w.Last+1 {
			t.Errorf("window is %+v, want %+v", g, w)
		}
	}
}

func TestCase21_StateWindow(t *testing.T) { compare21(t, replay(t, "21", "21").sinks["off"]) }

// TestCase21_AcrossKill: the restart is a kill -9 behind a checkpoint, as the case has it.
func TestCase21_AcrossKill(t *testing.T) {
	b, err := os.ReadFile("testdata/21.yaml")
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(b), "sources:\n")
	s := newSite(t, "sources:\n"+body)
	s.startReady()
	for _, l := range lines(t, "21") {
		if l.Op == "restart" {
			s.handled()
			s.checkpoint("sw")
			s.agent.Kill()
			s.startReady()
			continue
		}
		s.publish(l)
	}
	s.handled()
	s.checkpoint("sw")
	s.settled()
	compare21(t, s.sinkData("off.jsonl"))
	s.stop()
}
