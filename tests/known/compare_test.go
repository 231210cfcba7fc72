package known

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// compare tells the first difference, "" when there is none.
func compare(a answer, got, want []row) string {
	switch a.kind {
	case windows:
		return each(got, want, sameWindow)
	case late:
		return compareLate(got, want, a.some)
	case dropped:
		return each(got, want, func(g, w row) bool { return sameValue(g, w) && startOf(a, g) == w["window_start_ms"] })
	case values:
		return each(got, want, sameValue)
	case joined:
		return compareJoined(got, want)
	case sorted:
		return each(inOrder(got, "ts"), inOrder(want, "ts_ms"), sameValue)
	case outliers:
		return each(got, want, func(g, w row) bool {
			return sameValue(g, w) && near(g["mean"], w["mean"]) && near(g["stddev"], w["pstdev"]) && near(g["z"], w["z"])
		})
	case sessions:
		return compareSessions(got, want)
	case columns:
		return each(sortedRows(got, want), sortedRows(want, want), func(g, w row) bool { return g.text(w) == w.text(w) })
	}
	return each(got, want, func(g, w row) bool {
		return g["key"] == w["key"] && g["time"] == w["ts_ms"] && g["transition"] == w["transition"] && equalNumber(g["value"], w["v"])
	})
}

// each compares in order.
func each(got, want []row, same func(got, want row) bool) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		if !same(got[i], want[i]) {
			return fmt.Sprintf("row %d is %v, want %v", i, got[i], want[i])
		}
	}
	return ""
}

// compareJoined compares the columns of the answer alone, after sorting by them: whole numbers and text exactly.
func compareJoined(got, want []row) string {
	if len(want) == 0 {
		return "an answer without rows proves nothing"
	}
	columns := slices.Sorted(maps.Keys(want[0]))
	order := func(a, b row) int {
		for _, c := range columns {
			if n := cmp.Compare(number(a[c]), number(b[c])); n != 0 {
				return n
			}
			if _, err := strconv.ParseFloat(a[c], 64); err != nil && a[c] != b[c] {
				return cmp.Compare(a[c], b[c])
			}
		}
		return 0
	}
	got, want = slices.SortedFunc(slices.Values(got), order), slices.SortedFunc(slices.Values(want), order)
	return each(got, want, func(g, w row) bool {
		for _, c := range columns {
			if g[c] != w[c] && !(c != "key" && strings.ContainsAny(w[c], ".e") && near(g[c], w[c])) {
				return false
			}
		}
		return true
	})
}

// compareSessions puts both in the order of key and start: a session comes out when it ends.
func compareSessions(got, want []row) string {
	order := func(start string) func(a, b row) int {
		return func(a, b row) int {
			return cmp.Or(cmp.Compare(a["key"], b["key"]), cmp.Compare(number(a[start]), number(b[start])))
		}
	}
	got, want = slices.SortedFunc(slices.Values(got), order("window_start")), slices.SortedFunc(slices.Values(want), order("first_ts_ms"))
	return each(got, want, func(g, w row) bool {
		return g["key"] == w["key"] && g["window_start"] == w["first_ts_ms"] && g["last"] == w["last_ts_ms"] && g["window_end"] == w["session_end_ms"] &&
			sameAggregates(g, w)
	})
}

// number is 0 for text.
func number(text string) float64 {
	f, _ := strconv.ParseFloat(text, 64)
	return f
}

func sameWindow(g, w row) bool {
	return g["window_start"] == w["window_start_ms"] && g["window_end"] == w["window_end_ms"] && g["key"] == w["key"] && sameAggregates(g, w)
}

func sameAggregates(g, w row) bool {
	return g["count"] == w["count"] && equalNumber(g["min"], w["min"]) && equalNumber(g["max"], w["max"]) && near(g["sum"], w["sum"]) && near(g["avg"], w["avg"])
}

func sameValue(g, w row) bool {
	return g["key"] == w["key"] && g["ts"] == w["ts_ms"] && equalNumber(g["v"], w["v"])
}

// compareLate: the last revision of a window is its final content, revisions count from 0 without a hole, and there are as many as the
// answer says the window fired.
func compareLate(got, want []row, some bool) string {
	last := map[string]row{}
	for _, g := range got {
		id := g["window_start"] + " " + g["key"]
		revision := 0
		if before, again := last[id]; again {
			revision, _ = strconv.Atoi(before["revision"])
			revision++
		}
		if g["revision"] != strconv.Itoa(revision) {
			return fmt.Sprintf("window %s has revision %s, want %d", id, g["revision"], revision)
		}
		last[id] = g
	}
	if !some && len(last) != len(want) {
		return fmt.Sprintf("%d windows, want %d", len(last), len(want))
	}
	for _, w := range want {
		g := last[w["window_start_ms"]+" "+w["key"]]
		if !sameWindow(g, w) {
			return fmt.Sprintf("window is %v, want %v", g, w)
		}
		if revision, _ := strconv.Atoi(g["revision"]); strconv.Itoa(revision+1) != w["emissions"] {
			return fmt.Sprintf("window %v has last revision %d, want %s firings", w, revision, w["emissions"])
		}
	}
	return ""
}

// sizes of the windows whose late rows are listed, in ms.
var sizes = map[string]int64{"d-1s": 1000, "d-1s-2s": 1000, "d-5m": 300_000, "d-5m-30m": 300_000, "d-15m": 900_000, "d-15m-30m": 900_000, "d-1h": 3_600_000}

// startOf is the start of the window that a late row missed; a late row is the row that came in.
func startOf(a answer, g row) string {
	ts, _ := strconv.ParseInt(g["ts"], 10, 64)
	size := sizes[a.sink]
	return strconv.FormatInt(ts-((ts%size)+size)%size, 10)
}

// text writes the columns that like has.
func (r row) text(like row) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(like)) {
		fmt.Fprintf(&b, "%s=%s ", name, r[name])
	}
	return b.String()
}

// sortedRows puts rows in the order of the columns that the answer has.
func sortedRows(rows, answer []row) []row {
	if len(answer) == 0 {
		return rows
	}
	rows = slices.Clone(rows)
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.text(answer[0]), b.text(answer[0])) })
	return rows
}

// inOrder sorts by time and key.
func inOrder(rows []row, time string) []row {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(number(a[time]), number(b[time])), cmp.Compare(a["key"], b["key"]))
	})
	return rows
}

// TestCompareFindsDifferences: a comparison that finds nothing is none.
func TestCompareFindsDifferences(t *testing.T) {
	w := row{"window_start_ms": "0", "window_end_ms": "300000", "key": "a", "count": "2", "min": "1.0", "max": "2.0", "sum": "3.0", "avg": "1.5", "emissions": "2"}
	good := func() []row {
		r := row{"window_start": "0", "window_end": "300000", "key": "a", "count": "2", "min": "1", "max": "2", "sum": "3", "avg": "1.5", "revision": "0"}
		again := row{}
		for k, v := range r {
			again[k] = v
		}
		again["revision"] = "1"
		return []row{r, again}
	}
	if problem := compareLate(good(), []row{w}, false); problem != "" {
		t.Fatal(problem)
	}
	for name, break_ := range map[string]func([]row) []row{
		"lost revision": func(r []row) []row { return r[1:] },
		"repeated":      func(r []row) []row { return append(r, r[1]) },
		"fired once":    func(r []row) []row { return r[:1] },
		"sum":           func(r []row) []row { r[1]["sum"] = "3.00000001"; return r },
		"min":           func(r []row) []row { r[1]["min"] = "1.0000000001"; return r },
		"missing":       func([]row) []row { return nil },
		"one too many":  func(r []row) []row { return append(r, row{"window_start": "300000", "key": "a", "revision": "0"}) },
	} {
		if compareLate(break_(good()), []row{w}, false) == "" {
			t.Errorf("%s is not found", name)
		}
	}
}
