package window_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/window"
)

// The slots of the rows that come out, as the columns of the known answers.
const (
	outStart = iota
	outEnd
	outKey
	outCount
	outMin
	outMax
	outSum
	outAvg
	outRevision
	outWidth
)

func tumbling(size, lateness time.Duration) window.TumblingConfig {
	value := optest.Expr("value")
	return window.TumblingConfig{
		Key: []int{optest.SlotKey}, SizeMs: size.Milliseconds(), LatenessMs: lateness.Milliseconds(),
		Aggs: []window.Agg{
			{Kind: window.CountRows, Slot: outCount}, {Kind: window.Min, Arg: value, Slot: outMin}, {Kind: window.Max, Arg: value, Slot: outMax},
			{Kind: window.Sum, Arg: value, Slot: outSum}, {Kind: window.Avg, Arg: value, Slot: outAvg},
		},
		Width: outWidth, KeyOut: []int{outKey}, StartSlot: outStart, EndSlot: outEnd, RevisionSlot: outRevision,
	}
}

// accepted is a data set without delivery copies, by the dedup operator.
func accepted(t testing.TB, set string) []optest.Record {
	t.Helper()
	records := optest.Arrivals(t, set)
	result, err := optest.Run(optest.Config{Ports: 1, New: func() pipeline.Operator {
		return ops.NewDedup(ops.DedupConfig{
			Key: []*expr.Program{optest.Expr("topic"), optest.Expr("seq")}, TTL: int64(31 * time.Minute),
		})
	}}, records)
	if err != nil {
		t.Fatal(err)
	}
	return optest.Through(result.Ports[0], records)
}

func TestTumblingKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		set, answer string
		size        time.Duration
	}{
		{"nab-traffic", "tumbling_5m", 5 * time.Minute},
		{"nab-traffic", "tumbling_15m", 15 * time.Minute},
		{"nab-machine-temp", "tumbling_5m", 5 * time.Minute},
		{"nab-machine-temp", "tumbling_1h", time.Hour},
		{"nab-machine-temp", "tumbling_1d", 24 * time.Hour},
		{"nab-keystroke-gaps", "tumbling_1h", time.Hour},
	} {
		t.Run(c.set+"/"+c.answer, func(t *testing.T) {
			result, err := optest.Run(optest.Config{Ports: 2, OutOfOrdernessMs: (4 * time.Hour).Milliseconds(), New: func() pipeline.Operator {
				return window.NewTumbling(tumbling(c.size, 0))
			}}, accepted(t, c.set))
			if err != nil {
				t.Fatal(err)
			}
			compareWindows(t, result.Ports[0], optest.Expected(t, c.set, c.answer))
			if len(result.Ports[1]) != 0 || len(result.Dead) != 0 {
				t.Errorf("%d late rows, %d dead letters, want none", len(result.Ports[1]), len(result.Dead))
			}
		})
	}
}

// compareWindows demands the same windows in the order of firing: (end, key), which is that of the known answers.
func compareWindows(t *testing.T, rows []pipeline.Row, want [][]string) {
	t.Helper()
	if len(rows) != len(want) {
		t.Fatalf("%d windows, want %d", len(rows), len(want))
	}
	for i, w := range want {
		compareWindow(t, rows[i], w)
	}
}

func compareWindow(t *testing.T, row pipeline.Row, want []string) {
	t.Helper()
	for slot, text := range want[:outAvg+1] {
		tolerance := 0.0
		if slot == outSum || slot == outAvg {
			tolerance = 1e-9
		}
		if !optest.Same(row.Slots[slot], text, tolerance) {
			t.Errorf("window %v: column %d is %+v, want %s", want[:3], slot, row.Slots[slot], text)
		}
	}
	if row.Time != row.Slots[outEnd].Int()-1 {
		t.Errorf("window %v: event time is %d, want the end less 1", want[:3], row.Time)
	}
}

func TestLateKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		set        string
		size, d, l time.Duration // window, out of orderness, allowed lateness
		answer     string
	}{
		{set: "nab-traffic", size: 5 * time.Minute, d: 10 * time.Minute, answer: "late_5m_D10m_L0"},
		{set: "nab-traffic", size: 15 * time.Minute, d: 10 * time.Minute, answer: "late_15m_D10m_L0"},
		{set: "nab-traffic", size: 15 * time.Minute, d: 10 * time.Minute, l: 30 * time.Minute, answer: "late_15m_D10m_L30m"},
		{set: "nab-machine-temp", size: time.Hour, answer: "late_1h_D0_L0"},
		{set: "nab-machine-temp", size: 5 * time.Minute, answer: "late_5m_D0_L0"},
		{set: "nab-machine-temp", size: 5 * time.Minute, l: 30 * time.Minute, answer: "late_5m_D0_L30m"},
		{set: "nab-machine-temp", size: 5 * time.Minute, d: 30 * time.Minute, answer: "late_5m_D30m_L0"},
		{set: "nab-machine-temp", size: 5 * time.Minute, d: 60 * time.Minute, answer: "late_5m_D60m_L0"},
	} {
		t.Run(c.set+"/"+c.answer, func(t *testing.T) {
			records := accepted(t, c.set)
			result, err := optest.Run(optest.Config{Ports: 2, OutOfOrdernessMs: c.d.Milliseconds(), New: func() pipeline.Operator {
				return window.NewTumbling(tumbling(c.size, c.l))
			}}, records)
			if err != nil {
				t.Fatal(err)
			}
			if diff := compareDropped(result, optest.Expected(t, c.set, c.answer+"_dropped")); diff != "" {
				t.Error(diff)
			}
			compareFinal(t, result.Ports[0], optest.Expected(t, c.set, c.answer+"_windows"), c.set == "nab-traffic")
		})
	}
}

// compareDropped names the first difference: n, key, time, value, window start of each late row, in the order of arrival.
func compareDropped(result optest.Result, want [][]string) string {
	late := result.Ports[1]
	if len(late) != len(want) || result.Counters.Late != uint64(len(want)) {
		return fmt.Sprintf("%d late rows, counted %d, want %d", len(late), result.Counters.Late, len(want))
	}
	for i, w := range want {
		r := late[i]
		got := []string{fmt.Sprint(uint64(r.Pos) - 1), r.Slots[optest.SlotKey].Str, fmt.Sprint(r.Time)}
		if !slices.Equal(got, w[:3]) || !optest.Same(r.Slots[optest.SlotValue], w[3], 0) {
			return fmt.Sprintf("late row %d is %v %v, want %v", i, got, r.Slots[optest.SlotValue], w)
		}
	}
	return ""
}

// compareFinal compares the last firing of each window and the count of its firings. The answers of all but one set list
// only some windows.
func compareFinal(t *testing.T, rows []pipeline.Row, want [][]string, all bool) {
	t.Helper()
	type id struct {
		start int64
		key   string
	}
	final := map[id]pipeline.Row{}
	for _, r := range rows {
		w := id{r.Slots[outStart].Int(), r.Slots[outKey].Str}
		if have, again := final[w]; again != (r.Slots[outRevision].Int() > 0) ||
			again && have.Slots[outRevision].Int()+1 != r.Slots[outRevision].Int() {
			t.Errorf("window %v: revision %d is not the next", w, r.Slots[outRevision].Int())
		}
		final[w] = r
	}
	if all && len(final) != len(want) {
		t.Errorf("%d windows, want %d", len(final), len(want))
	}
	for _, w := range want {
		start, _ := strconv.ParseInt(w[0], 10, 64)
		r, ok := final[id{start, w[2]}]
		if !ok {
			t.Errorf("window %v is missing", w[:3])
			continue
		}
		compareWindow(t, r, w)
		if firings := fmt.Sprint(r.Slots[outRevision].Int() + 1); firings != w[8] {
			t.Errorf("window %v fired %s times, want %s", w[:3], firings, w[8])
		}
	}
}
