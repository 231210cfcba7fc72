package window_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/pipeline/window"
)

func rec(time int64, key string, value int64) optest.Record {
	return optest.Record{Time: time, Slots: []pipeline.Value{pipeline.StringValue(key), pipeline.IntValue(value)}}
}

// show writes rows as "position key@start=sum/revision".
func show(rows []pipeline.Row) string {
	var parts []string
	for _, r := range rows {
		parts = append(parts, fmt.Sprintf("%d %s@%d=%d/%d", uint64(r.Pos), r.Slots[outKey].Str, r.Slots[outStart].Int(), r.Slots[outSum].Int(), r.Slots[outRevision].Int()))
	}
	return strings.Join(parts, ", ")
}

func runTumbling(t *testing.T, c window.TumblingConfig, delay int64, records ...optest.Record) optest.Result {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	result, err := optest.Run(optest.Config{Ports: 2, OutOfOrdernessMs: delay, New: func() pipeline.Operator { return window.NewTumbling(c) }}, records)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestWindowsFireLateRowsAgainAndForget(t *testing.T) {
	c := tumbling(10*time.Millisecond, 5*time.Millisecond)
	result := runTumbling(t, c, 0,
		rec(1, "b", 1), rec(2, "a", 2), // window 0 of b and a
		rec(10, "a", 10), // the watermark is 10: window 0 fires, a first
		rec(3, "b", 4),   // late, allowed: fires again at once, for b alone
		rec(4, "c", 8),   // a key that is new in a window that fired
		rec(14, "a", 1),  // watermark 14: window 0 is still open to late rows
		rec(5, "b", 16),
		rec(15, "a", 1), // watermark 15 = end + lateness: window 0 is forgotten
		rec(6, "b", 32), // late
	)
	want := "3 a@0=2/0, 3 b@0=1/0, 4 b@0=5/1, 5 c@0=8/0, 7 b@0=21/2, 10 a@10=12/0"
	if got := show(result.Ports[0]); got != want {
		t.Errorf("fired %s, want %s", got, want)
	}
	if late := result.Ports[window.LatePort]; len(late) != 1 || late[0].Slots[1].Int() != 32 || result.Counters.Late != 1 {
		t.Errorf("late %v, counted %d, want the row of 32", late, result.Counters.Late)
	}
	at := result.Ports[0][0].At
	if want := (pipeline.At{Pos: 3, Phase: pipeline.After, Deadline: 10}); at != want {
		t.Errorf("fired at %+v, want %+v", at, want)
	}
	if at, want := result.Ports[0][2].At, (pipeline.At{Pos: 4, Phase: pipeline.During}); at != want {
		t.Errorf("fired again at %+v, want %+v", at, want)
	}
}

func TestWindowBounds(t *testing.T) {
	for _, c := range []struct {
		offset, time, want int64
	}{{0, 0, 0}, {0, 9, 0}, {0, 10, 10}, {0, -1, -10}, {0, -10, -10}, {3, 2, -7}, {3, 3, 3}, {-3, 6, -3}, {-3, 7, 7}} {
		config := tumbling(10*time.Millisecond, 0)
		config.OffsetMs = c.offset
		rows := runTumbling(t, config, 0, rec(c.time, "a", 1)).Ports[0]
		if got := rows[0].Slots[outStart].Int(); got != c.want {
			t.Errorf("offset %d: %d is in the window from %d, want %d", c.offset, c.time, got, c.want)
		}
	}
}

func TestRowsThatNoWindowTakes(t *testing.T) {
	c := tumbling(10*time.Millisecond, 0)
	c.MaxKeys = 2
	result := runTumbling(t, c, 0, rec(pipeline.NoTime, "a", 1), rec(1, "a", 2), rec(2, "b", 4), rec(3, "c", 8), rec(4, "a", 16),
		rec(12, "c", 32), rec(math.MaxInt64-1, "d", 1))
	var dead []string
	for _, d := range result.Dead {
		dead = append(dead, fmt.Sprintf("%d:%s", uint64(d.Pos), d.Reason))
	}
	if got, want := strings.Join(dead, " "), "1:no_time 4:max_keys 6:max_keys 7:no_time"; got != want {
		t.Errorf("dead letters %s, want %s", got, want)
	}
	if got, want := show(result.Ports[0]), "6 a@0=18/0, 6 b@0=4/0"; got != want {
		t.Errorf("fired %s, want %s", got, want)
	}
}

// Field case 19: the first window is that of the first event, not of the clock.
func TestCase19OldEventsHaveOldWindows(t *testing.T) {
	var records []optest.Record
	for _, ts := range []int64{1767139212000, 1767139232000, 1767139252000, 1767139272000, 1767139292000, 1767139312000} {
		records = append(records, rec(ts, "w", 1))
	}
	rows := runTumbling(t, tumbling(time.Minute, 0), 0, records...).Ports[0]
	if got, want := show(rows), "4 w@1767139200000=3/0, 7 w@1767139260000=3/0"; got != want {
		t.Errorf("fired %s, want %s", got, want)
	}
}

// Field case 27: a gateway repeats and reorders; dedup on the id, then windows.
func TestCase27RepeatsAreCountedOnce(t *testing.T) {
	base := int64(1767225600000)
	var records []optest.Record
	for _, id := range []int64{3, 0, 1, 1, 2, 0, 5, 6, 4, 4, 6, 7} {
		records = append(records, rec(base+500*id, "E", id))
	}
	deduped, err := optest.Run(optest.Config{Ports: 1, New: func() pipeline.Operator {
		return ops.NewDedup(ops.DedupConfig{Key: []*expr.Program{optest.Expr("value")}})
	}}, records)
	if err != nil {
		t.Fatal(err)
	}
	rows := runTumbling(t, tumbling(time.Second, 0), 4000, optest.Through(deduped.Ports[0], records)...).Ports[0]
	var sums []int64
	for _, r := range rows {
		sums = append(sums, r.Slots[outSum].Int(), r.Slots[outCount].Int())
	}
	if got, want := fmt.Sprint(sums), "[1 2 5 2 9 2 13 2]"; got != want {
		t.Errorf("sums and counts %s, want %s", got, want)
	}
}

type keptTables struct{ list []*state.Table }

func (k *keptTables) Table(spec state.Spec) (*state.Table, error) {
	k.list = append(k.list, state.New(spec))
	return k.list[len(k.list)-1], nil
}

func TestStateThatIsNotReadableIsRefused(t *testing.T) {
	for key, val := range map[string]string{"short": "", "12345678": "too short"} {
		op, kept := window.NewTumbling(tumbling(time.Second, 0)), &keptTables{}
		if err := op.Open(kept); err != nil {
			t.Fatal(err)
		}
		if err := kept.list[0].Load([]byte(key), nil, []byte(val)); err != nil {
			t.Fatal(err)
		}
		if err := op.Restored(); !errors.Is(err, window.ErrState) {
			t.Errorf("key %q restored with %v, want %v", key, err, window.ErrState)
		}
	}
}

func TestConfigIsValidated(t *testing.T) {
	for name, change := range map[string]func(*window.TumblingConfig){
		"no size":             func(c *window.TumblingConfig) { c.SizeMs = 0 },
		"offset over size":    func(c *window.TumblingConfig) { c.OffsetMs = c.SizeMs },
		"negative lateness":   func(c *window.TumblingConfig) { c.LatenessMs = -1 },
		"no key columns":      func(c *window.TumblingConfig) { c.KeyOut = nil },
		"no argument":         func(c *window.TumblingConfig) { c.Aggs[1].Arg = nil },
		"unknown aggregate":   func(c *window.TumblingConfig) { c.Aggs[0].Kind = 99 },
		"negative max_keys":   func(c *window.TumblingConfig) { c.MaxKeys = -1 },
		"too many aggregates": func(c *window.TumblingConfig) { c.Aggs = make([]window.Agg, 300) },
	} {
		c := tumbling(time.Second, 0)
		change(&c)
		if err := c.Validate(); !errors.Is(err, window.ErrConfig) {
			t.Errorf("%s: %v, want %v", name, err, window.ErrConfig)
		}
	}
}

func TestAggregatesAreFoundByName(t *testing.T) {
	for k := window.Count; k <= window.Rate; k++ {
		if got, err := window.ParseAggKind(k.String(), k.Args()); got != k || err != nil {
			t.Errorf("%s: got %v, %v", k, got, err)
		}
	}
	if got, err := window.ParseAggKind("count", 0); got != window.CountRows || err != nil {
		t.Errorf("count(): got %v, %v", got, err)
	}
	for _, bad := range []struct {
		name string
		args int
	}{{"sum", 0}, {"sum", 2}, {"percentile", 1}, {"mode", 1}} {
		if _, err := window.ParseAggKind(bad.name, bad.args); !errors.Is(err, window.ErrConfig) {
			t.Errorf("%s of %d: %v, want %v", bad.name, bad.args, err, window.ErrConfig)
		}
	}
}

func TestTTLDropsWhatFallsSilentAndKeepsPickedText(t *testing.T) {
	c := tumbling(time.Second, 0)
	c.TTL = 10
	c.Aggs = append(c.Aggs[:3:3], window.Agg{Kind: window.Sum, Arg: optest.Expr("value"), Slot: outSum},
		window.Agg{Kind: window.First, Arg: optest.Expr("key"), Slot: outAvg})
	at := func(elapsed int64, key string, value int64) optest.Record {
		r := rec(1, key, value)
		r.Elapsed = elapsed
		return r
	}
	result := runTumbling(t, c, 0, at(1, "a", 1), at(1, "b", 2), at(1, "c", 4), at(9, "a", 8), at(9, "c", 16), at(18, "a", 32), at(27, "c", 64))
	if got, want := show(result.Ports[0]), "8 a@0=41/0, 8 c@0=64/0"; got != want {
		t.Errorf("fired %s, want %s", got, want)
	}
	if result.Counters.Dropped != 2 {
		t.Errorf("counted %d dropped, want b, and c before it came again", result.Counters.Dropped)
	}
	if text := result.Ports[0][0].Slots[outAvg].Str; text != "a" { // picked at 1, its entry written until 18
		t.Errorf("first is %q, want a", text)
	}
}
