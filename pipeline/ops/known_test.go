package ops_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/optest"
)

func run(t testing.TB, c optest.Config, records []optest.Record) optest.Result {
	t.Helper()
	result, err := optest.Run(c, records)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func newDedup() pipeline.Operator {
	return ops.NewDedup(ops.DedupConfig{
		Key: []*expr.Program{optest.Expr("topic"), optest.Expr("seq")}, TTL: int64(31 * time.Minute),
	})
}

func newDeadband() pipeline.Operator {
	return ops.NewDeadband(ops.DeadbandConfig{Key: []int{optest.SlotKey}, Value: optest.Expr("value"), Threshold: 0.5})
}

// accepted is a data set without delivery copies.
func accepted(t testing.TB, set string) []optest.Record {
	records := optest.Arrivals(t, set)
	return optest.Through(run(t, optest.Config{Ports: 1, New: newDedup}, records).Ports[0], records)
}

// inEventOrder sorts by event time with an out-of-orderness that makes nothing late.
func inEventOrder(t testing.TB, records []optest.Record) []optest.Record {
	c := optest.Config{Ports: 2, OutOfOrdernessMs: (4 * time.Hour).Milliseconds(), New: func() pipeline.Operator { return ops.NewSort(ops.SortConfig{}) }}
	result := run(t, c, records)
	if len(result.Ports[0]) != len(records) {
		t.Fatalf("%d of %d rows came out sorted", len(result.Ports[0]), len(records))
	}
	var sorted []optest.Record
	for _, r := range result.Ports[0] {
		sorted = append(sorted, optest.Record{Time: r.Time, Slots: r.Slots})
	}
	return sorted
}

func TestDedupKnownAnswer(t *testing.T) {
	records := optest.Arrivals(t, "nab-traffic")
	result := run(t, optest.Config{Ports: 1, New: newDedup}, records)
	passed := map[pipeline.Position]bool{}
	for _, r := range result.Ports[0] {
		passed[r.Pos] = true
	}
	var dropped [][]string
	for i, r := range records {
		if !passed[pipeline.Position(i+1)] {
			dropped = append(dropped, []string{fmt.Sprint(i), r.Slots[optest.SlotTopic].Str, fmt.Sprint(r.Slots[optest.SlotSeq].Int())})
		}
	}
	want := optest.Expected(t, "nab-traffic", "duplicates")
	if !slices.EqualFunc(dropped, want, slices.Equal[[]string]) {
		t.Errorf("%d dropped, want the %d of the answer", len(dropped), len(want))
	}
	if result.Counters.Dropped != uint64(len(want)) {
		t.Errorf("counted %d, want %d", result.Counters.Dropped, len(want))
	}
}

func TestDeadbandKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		set, answer string
		sorted      bool
	}{
		{set: "nab-machine-temp", answer: "deadband_0.5"},
		{set: "nab-keystroke-gaps", answer: "deadband_0.5"},
		{set: "nab-traffic", answer: "deadband_0.5_arrival_order"},
		{set: "nab-traffic", answer: "deadband_0.5_event_order", sorted: true},
	} {
		t.Run(c.set+"/"+c.answer, func(t *testing.T) {
			records := accepted(t, c.set)
			if c.sorted {
				records = inEventOrder(t, records)
			}
			rows := run(t, optest.Config{Ports: 1, New: newDeadband}, records).Ports[0]
			var got, want [][]string
			for _, w := range optest.Expected(t, c.set, c.answer) {
				want = append(want, []string{w[0], w[1], plain(t, w[2])})
			}
			for _, r := range rows {
				v, _ := r.Slots[optest.SlotValue].AsFloat()
				got = append(got, []string{r.Slots[optest.SlotKey].Str, fmt.Sprint(r.Time), fmt.Sprint(v)})
			}
			sameRows(t, got, want, c.sorted)
		})
	}
}

// plain writes a number of a known answer as fmt.Sprint does.
func plain(t *testing.T, text string) string {
	t.Helper()
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(f)
}

// sameRows compares in order, or without order where rows of different keys share an instant.
func sameRows(t *testing.T, got, want [][]string, anyOrder bool) {
	t.Helper()
	if anyOrder {
		slices.SortFunc(got, slices.Compare[[]string])
		slices.SortFunc(want, slices.Compare[[]string])
	}
	if len(got) != len(want) {
		t.Fatalf("%d rows, want %d", len(got), len(want))
	}
	for i := range want {
		if !slices.Equal(got[i], want[i]) {
			t.Fatalf("row %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// The slots of an alarm's rows in the tests.
const (
	outKey = iota
	outTransition
	outValue
	outWidth
)

func alarmConfig(raise, clear string) ops.AlarmConfig {
	c := ops.AlarmConfig{
		Key: []int{optest.SlotKey}, Value: optest.Expr("value"), Raise: optest.Expr(raise),
		Width: outWidth, KeyOut: []int{outKey}, TransitionSlot: outTransition, ValueSlot: outValue,
	}
	if clear != "" {
		c.Clear = optest.Expr(clear)
	}
	return c
}

func TestAlarmKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		set, answer  string
		raise, clear string
		sorted       bool
	}{
		{set: "nab-machine-temp", answer: "alert_high_gt100_lt95", raise: "value > 100", clear: "value < 95"},
		{set: "nab-machine-temp", answer: "alert_low_lt60_gt65", raise: "value < 60", clear: "value > 65"},
		{set: "nab-keystroke-gaps", answer: "alert_high_gt5_lt4", raise: "value > 5", clear: "value < 4"},
		{set: "nab-traffic", answer: "alert_speed_low_lt40_gt50_event_order", raise: "value < 40", clear: "value > 50", sorted: true},
	} {
		t.Run(c.set+"/"+c.answer, func(t *testing.T) {
			records := accepted(t, c.set)
			if c.sorted {
				records = inEventOrder(t, records)
				records = slices.DeleteFunc(records, func(r optest.Record) bool { return !strings.HasSuffix(r.Slots[optest.SlotKey].Str, "/speed") })
			}
			rows := run(t, optest.Config{Ports: 1, New: func() pipeline.Operator { return ops.NewAlarm(alarmConfig(c.raise, c.clear)) }}, records).Ports[0]
			var got, want [][]string
			for _, w := range optest.Expected(t, c.set, c.answer) {
				want = append(want, []string{w[0], w[1], w[2], plain(t, w[3])})
			}
			for _, r := range rows {
				v, _ := r.Slots[outValue].AsFloat()
				got = append(got, []string{r.Slots[outKey].Str, fmt.Sprint(r.Time), r.Slots[outTransition].Str, fmt.Sprint(v)})
			}
			sameRows(t, got, want, c.sorted)
		})
	}
}
