package window_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/window"
)

func processing(op func() pipeline.Operator) func() pipeline.Operator {
	return func() pipeline.Operator { return window.NewProcessing(op(), 2) }
}

func newTumbling(c window.TumblingConfig) func() pipeline.Operator {
	return func() pipeline.Operator { return window.NewTumbling(c) }
}

// stamped is a row of value at a stamp: elapsed and wall in ms.
func stamped(elapsed, wall int64, value int64) optest.Record {
	r := rec(pipeline.NoTime, "a", value)
	r.Elapsed, r.Wall = elapsed*1e6, wall
	return r
}

func TestProcessingTimeWindows(t *testing.T) {
	type records = []optest.Record
	c := tumbling(10*time.Millisecond, 0)
	for _, x := range []struct {
		name string
		rows records
		want string
	}{
		{"aligned to wall time", records{stamped(0, 1005, 1), stamped(3, 1008, 2), stamped(6, 1011, 4)}, "3 a@1000=3/0, 4 a@1010=4/0"},
		{"rows without event time, end of input", records{stamped(0, 1000, 1)}, "2 a@1000=1/0"},
		{"the clock is a little slow: nothing fires before the wall is there", records{stamped(0, 1000, 1), stamped(10, 1009, 2), stamped(11, 1010, 4)}, "3 a@1000=3/0, 4 a@1010=4/0"},
		{"step forwards: what it passed fires before what comes with it", records{stamped(0, 1000, 1), stamped(2, 5001, 2), stamped(3, 5002, 4)}, "2 a@1000=1/0, 4 a@5000=6/0"},
		// 1009, back to 1001: 8 behind; half speed for 16 ms: at 20 elapsed 1009+8=1017 = wall 1017
		{"step back: no window twice", records{stamped(0, 1009, 1), stamped(4, 1001, 2), stamped(6, 1003, 4), stamped(20, 1017, 8), stamped(24, 1021, 16)},
			"2 a@1000=1/0, 5 a@1010=14/0, 6 a@1020=16/0"},
		{"1970, then the right time", records{stamped(0, 3, 1), stamped(5, 1767225600003, 2), stamped(6, 1767225600004, 4)}, "2 a@0=1/0, 4 a@1767225600000=6/0"},
	} {
		if got := show(runOp(t, 0, processing(newTumbling(c)), c, x.rows...).Ports[0]); got != x.want {
			t.Errorf("%s: %s, want %s", x.name, got, x.want)
		}
	}
}

// TestProcessingTimeFiresWhenNothingComes: the timer is one of elapsed time, for which the agent journals a tick.
func TestProcessingTimeFiresWhenNothingComes(t *testing.T) {
	op := processing(newTumbling(tumbling(10*time.Millisecond, 0)))()
	if err := op.Open(tables{}); err != nil {
		t.Fatal(err)
	}
	if err := op.Restored(); err != nil {
		t.Fatal(err)
	}
	out := pipeline.NewOut("", 2)
	tick := func(elapsed, wall int64) {
		out.Now = pipeline.Stamp{Elapsed: elapsed * 1e6, Wall: wall}
		op.(pipeline.Clocked).Tick(out.Now)
		if due, _ := op.Timers(); due <= out.Now.Elapsed {
			out.At = pipeline.At{Pos: pipeline.Position(elapsed), Phase: pipeline.Before}
			op.Elapsed(out.Now, out)
		}
	}
	tick(100, 1003)
	out.At = pipeline.At{Pos: 100, Phase: pipeline.During}
	row := stamped(0, 0, 1)
	op.Process(0, &pipeline.Row{At: out.At, Time: row.Time, Slots: row.Slots}, out)
	if due, event := op.Timers(); due != 107e6 || event != pipeline.NoDeadline {
		t.Fatalf("timers are %d and %d, want 107 ms and none", due, event)
	}
	tick(107, 1010)
	if rows := out.Ports[0]; len(rows) != 1 || rows[0].At != (pipeline.At{Pos: 107, Phase: pipeline.Before, Deadline: 107e6}) {
		t.Fatalf("fired %v", rows)
	}
	tick(300, 900) // a step back, and time goes on
	tick(900, 1500)
	if len(out.Ports[0]) != 1 {
		t.Errorf("fired again: %v", out.Ports[0])
	}
}

// TestProcessingTimeOnAnyClock has stamps whose wall clock runs, steps forwards and back. Whatever it does, no window comes out twice, each row is in one window, windows
// come in order, and checkpoints do not show.
func TestProcessingTimeOnAnyClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		elapsed, wall := int64(0), int64(1_000_000)
		records := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) optest.Record {
			ran := rapid.SampledFrom([]int64{0, 1, 3, 12, 40}).Draw(t, "ran")
			elapsed += ran
			wall += ran + rapid.SampledFrom([]int64{0, 0, 0, 0, 1, -1, 25, -25, 3000, -400}).Draw(t, "step")
			r := stamped(elapsed, wall, 1)
			r.Slots[0] = pipeline.StringValue(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"))
			return r
		}), 0, 60).Draw(t, "records")
		for i := 1; i < len(records); i++ { // all records of one stamp share its wall time
			if records[i].Elapsed == records[i-1].Elapsed {
				records[i].Wall = records[i-1].Wall
			}
		}
		c := tumbling(10*time.Millisecond, 0)
		op := newTumbling(c)
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 1:
			h := hopping(20*time.Millisecond, 5*time.Millisecond, 0)
			h.EarlyMs = rapid.SampledFrom([]int64{0, 3}).Draw(t, "early")
			op = newHopping(h)
		case 2:
			op = newSession(session(10*time.Millisecond, 0, rapid.Bool().Draw(t, "split")))
		default:
			result, err := optest.Run(optest.Config{Ports: 2, New: processing(op)}, records)
			if err != nil {
				t.Fatal(err)
			}
			if wrong := once(result, len(records)); wrong != "" {
				t.Fatal(wrong)
			}
		}
		replayAnywhere(t, optest.Config{Ports: 2, New: processing(op)}, records, false)
	})
}

// once tells where a window comes out twice, late or not at all.
func once(result optest.Result, rows int) string {
	seen, counted, last := map[string]bool{}, 0, int64(0)
	for _, r := range result.Ports[0] {
		id := fmt.Sprint(r.Slots[outStart].Int(), r.Slots[outKey].Str)
		if seen[id] || r.Slots[outRevision].Int() != 0 {
			return "twice: " + id
		}
		if seen[id] = true; r.Slots[outStart].Int() < last {
			return "out of order: " + id
		}
		last = r.Slots[outStart].Int()
		counted += int(r.Slots[outCount].Int())
	}
	if counted != rows || result.Counters.Late != 0 {
		return fmt.Sprintf("%d rows in windows, %d late, want %d and none", counted, result.Counters.Late, rows)
	}
	return ""
}

// TestPlantedClockIsFound: windows of the bare wall clock come out twice after a step back.
func TestPlantedClockIsFound(t *testing.T) {
	records := []optest.Record{stamped(0, 1009, 1), stamped(4, 1011, 2), stamped(6, 1003, 4), stamped(20, 1017, 8)}
	for _, planted := range []bool{false, true} {
		result, err := optest.Run(optest.Config{Ports: 2, New: func() pipeline.Operator {
			op := window.NewProcessing(window.NewTumbling(tumbling(10*time.Millisecond, 0)), 2)
			if planted {
				op.PlantBareWall()
			}
			return op
		}}, records)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := once(result, len(records)); (wrong != "") != planted {
			t.Errorf("planted %v: %q", planted, strings.TrimSpace(wrong))
		}
	}
}
