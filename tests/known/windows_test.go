package known

import (
	"bytes"
	"cmp"
	"encoding/csv"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// windowAnswers are those of windows that overlap, of sessions and of top rows. Each set has a config of its own for them.
var windowAnswers = []struct {
	set, sink, file string
	compare         func(got, want []row) string
}{
	{"nab-traffic", "hopping", "hopping_1h_by_10m", inFiringOrder},
	{"nab-traffic", "split", "sessions_30m_newat_gap", sessions},
	{"nab-traffic", "merge", "sessions_30m_touchmerges", sessions},
	{"nab-machine-temp", "hopping", "hopping_1h_by_10m", inFiringOrder},
	{"nab-keystroke-gaps", "hopping", "hopping_1h_by_10m", inFiringOrder},
	{"nab-keystroke-gaps", "split", "sessions_10m_newat_gap", sessions},
	{"nab-keystroke-gaps", "merge", "sessions_10m_touchmerges", sessions},
	{"nexmark-mini", "q5", "q5_hop10s_by2s", sameColumns},
	{"nexmark-mini", "q7", "q7_tumble10s", sameColumns},
	{"nexmark-mini", "q11", "q11_session10s_newat_gap", sameColumns},
}

func inFiringOrder(got, want []row) string { return each(got, want, sameWindow) }

// sessions are listed by key and start; they come out by end.
func sessions(got, want []row) string {
	order := func(start string) func(a, b row) int {
		return func(a, b row) int { return cmp.Or(cmp.Compare(a["key"], b["key"]), cmp.Compare(a[start], b[start])) }
	}
	return each(slices.SortedFunc(slices.Values(got), order("window_start")), slices.SortedFunc(slices.Values(want), order("first_ts_ms")), func(g, w row) bool {
		return g["key"] == w["key"] && g["window_start"] == w["first_ts_ms"] && g["last"] == w["last_ts_ms"] && g["window_end"] == w["session_end_ms"] &&
			g["count"] == w["count"] && equalNumber(g["min"], w["min"]) && equalNumber(g["max"], w["max"]) && near(g["sum"], w["sum"]) && near(g["avg"], w["avg"])
	})
}

// sameColumns demands rows that are equal as text, in any order.
func sameColumns(got, want []row) string {
	order := func(a, b row) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) } // maps print sorted
	return each(slices.SortedFunc(slices.Values(got), order), slices.SortedFunc(slices.Values(want), order), maps.Equal[row, row])
}

// TestWindowAnswers runs each through the built program, as a newcomer does.
func TestWindowAnswers(t *testing.T) {
	t.Parallel()
	for _, a := range windowAnswers {
		t.Run(a.set+"/"+a.file, func(t *testing.T) {
			cmd := exec.Command(weir, "replay", "--pipeline", filepath.Join(configs, a.set+"-windows.yaml"),
				"--sink", a.sink, "--input", filepath.Join(sets, a.set, "arrivals.jsonl"), "-o", "csv")
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, &stderr)
			}
			f, err := os.Open(filepath.Join(sets, a.set, "expected", a.file+".csv"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			want := table(t, csv.NewReader(f))
			got := table(t, csv.NewReader(bytes.NewReader(out)))
			if problem := a.compare(got, want); problem != "" {
				t.Error(problem)
			}
			if len(want) == 0 || a.compare(got[1:], want) == "" {
				t.Error("a missing row is not noticed")
			}
		})
	}
}
