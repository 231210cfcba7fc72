package window_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/window"
)

func counting(size, slide int64) window.CountConfig {
	return window.CountConfig{Config: common(0), Size: size, Slide: slide}
}

func newCount(c window.CountConfig) func() pipeline.Operator {
	return func() pipeline.Operator { return window.NewCountWindow(c) }
}

func ones(n int) (records []optest.Record) {
	for i := range n {
		records = append(records, rec(int64(10*i), "a", 1<<i))
	}
	return records
}

func TestCountWindows(t *testing.T) {
	for _, c := range []struct {
		name        string
		size, slide int64
		want        string
	}{
		{"tumbling", 2, 2, "2 a@0=3/0, 4 a@20=12/0, 6 a@40=48/0"},
		{"sliding: partial first", 4, 2, "2 a@0=3/0, 4 a@0=15/0, 6 a@20=60/0"},
		{"each row", 2, 1, "1 a@0=1/0, 2 a@0=3/0, 3 a@10=6/0, 4 a@20=12/0, 5 a@30=24/0, 6 a@40=48/0, 7 a@50=96/0"},
		{"nothing in common", 3, 2, "2 a@0=3/0, 4 a@10=14/0, 6 a@30=56/0"},
		{"with rows in no window", 1, 3, "3 a@20=4/0, 6 a@50=32/0"},
	} {
		config := counting(c.size, c.slide)
		if got := show(runOp(t, 0, newCount(config), config, ones(7)...).Ports[0]); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestCountWindowsAreByKeyAndArrival(t *testing.T) {
	c := counting(2, 2)
	got := runOp(t, 0, newCount(c), c, rec(9, "a", 1), rec(5, "b", 2), rec(3, "a", 4), rec(7, "b", 8), rec(1, "a", 16)).Ports[0]
	if want := "3 a@3=5/0, 4 b@5=10/0"; show(got) != want {
		t.Errorf("fired %s, want %s", show(got), want)
	}
	if got[0].Slots[outEnd].Int() != 10 || got[0].Time != 9 {
		t.Errorf("window is %v at %d, want the end 10", got[0].Slots, got[0].Time)
	}
}

func TestCountWindowsOutOfRange(t *testing.T) {
	for name, c := range map[string]window.CountConfig{"none": counting(0, 1), "no slide": counting(1, 0), "too many pieces": counting(10_001, 10)} {
		if err := c.Validate(); !errors.Is(err, window.ErrConfig) {
			t.Errorf("%s: %v, want %v", name, err, window.ErrConfig)
		}
	}
}

func TestTTLBeginsACountAnew(t *testing.T) {
	c := counting(2, 2)
	c.TTL = 10
	at := func(elapsed, value int64) optest.Record {
		r := rec(1, "a", value)
		r.Elapsed = elapsed
		return r
	}
	if got, want := show(runOp(t, 0, newCount(c), c, at(1, 1), at(11, 2), at(12, 4)).Ports[0]), "3 a@1=6/0"; got != want {
		t.Errorf("fired %s, want %s", got, want)
	}
}

func states(begin, end string) window.StateConfig {
	c := window.StateConfig{Config: common(0), Begin: optest.Expr(begin)}
	if end != "" {
		c.End = optest.Expr(end)
	}
	return c
}

func newState(c window.StateConfig) func() pipeline.Operator {
	return func() pipeline.Operator { return window.NewStateWindow(c) }
}

func TestStateWindows(t *testing.T) {
	values := []int64{0, 5, 6, 0, 7, 8, 9, 1}
	var records []optest.Record
	for i, v := range values {
		records = append(records, rec(int64(10*i), "a", v))
	}
	for _, c := range []struct{ name, begin, end, want string }{
		{"while it holds", "value >= 5", "", "4 a@10=11/0, 8 a@40=24/0"},
		{"from one to the other", "value == 6", "value == 8", "6 a@20=21/0"},
		{"the row that begins may end it", "value >= 5", "value >= 5", "2 a@10=5/0, 3 a@20=6/0, 5 a@40=7/0, 6 a@50=8/0, 7 a@60=9/0"},
	} {
		config := states(c.begin, c.end)
		if got := show(runOp(t, 0, newState(config), config, records...).Ports[0]); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestStateWindowOfNullStaysOpen(t *testing.T) {
	c := states("value > 3", "")
	null := optest.Record{Time: 2, Slots: []pipeline.Value{pipeline.StringValue("a"), {}}}
	result := runOp(t, 0, newState(c), c, rec(1, "a", 4), null, rec(3, "a", 5), rec(4, "a", 1))
	if got, want := show(result.Ports[0]), "4 a@1=9/0"; got != want || result.Counters.Dropped != 2 {
		t.Errorf("fired %s, want %s; dropped %d, want 2", got, want, result.Counters.Dropped)
	}
}

// Field case 21: a restart does not begin a state window anew.
func TestCase21StateWindowAcrossRestart(t *testing.T) {
	base := int64(1767225600000)
	row := func(i int64, a bool) optest.Record {
		return optest.Record{Time: base + 1000*i, Slots: []pipeline.Value{pipeline.StringValue("sw"), pipeline.IntValue(1), pipeline.BoolValue(a)}}
	}
	c := states("seq == false", "seq == true")
	for _, restart := range []optest.Checkpoint{optest.Restore, optest.Crash} {
		result, err := optest.Run(optest.Config{New: newState(c), Ports: 2, Between: func(i int) optest.Checkpoint {
			if i == 0 {
				return restart
			}
			return optest.None
		}}, []optest.Record{row(0, false), row(1, false), row(2, true)})
		if err != nil {
			t.Fatal(err)
		}
		rows := result.Ports[0]
		if len(rows) != 1 || rows[0].Slots[outStart].Int() != base || rows[0].Slots[outEnd].Int() != base+2001 || rows[0].Slots[outCount].Int() != 3 {
			t.Errorf("windows %v, want one of three rows", rows)
		}
	}
}

func TestArrivalReplayEquality(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawn := drawConfig(t)
		base := window.Config{
			Key: drawn.Key, MaxKeys: drawn.MaxKeys, Aggs: drawn.Aggs, Width: drawn.Width, KeyOut: drawn.KeyOut,
			StartSlot: drawn.StartSlot, EndSlot: drawn.EndSlot, RevisionSlot: drawn.RevisionSlot,
		}
		records := drawRecords(t)
		base.TTL = drawTTL(t, records)
		op := newState(window.StateConfig{Config: base, Begin: optest.Expr("value > 0")})
		if rapid.Bool().Draw(t, "count") {
			op = newCount(window.CountConfig{Config: base, Size: rapid.Int64Range(1, 9).Draw(t, "size"), Slide: rapid.Int64Range(1, 9).Draw(t, "slide")})
		}
		for i := range records {
			records[i].Slots[1] = rapid.SampledFrom([]pipeline.Value{{}, pipeline.IntValue(1), pipeline.FloatValue(0.1), pipeline.IntValue(-3)}).Draw(t, "small")
		}
		replayAnywhere(t, optest.Config{New: op, Ports: 2, Keyed: true}, records, base.TTL > 0)
	})
}
