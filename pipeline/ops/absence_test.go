package ops_test

import (
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/optest"
)

func absenceConfig(after int64, event bool) ops.AbsenceConfig {
	return ops.AbsenceConfig{Key: []int{0}, KeyOut: []int{0}, After: after, EventTime: event, Timed: true, Width: 3, TransitionSlot: 1, SeenSlot: 2}
}

func TestAbsence(t *testing.T) {
	limited := absenceConfig(10, false)
	limited.MaxKeys = 1
	noTime := absenceConfig(10, false)
	noTime.Timed = false
	untimed := func(at int64, key string) optest.Record { return timed(at, pipeline.NoTime, key, nil) }
	for _, c := range []struct {
		name       string
		config     ops.AbsenceConfig
		records    []optest.Record
		want, dead string
		times      []int64
		late       uint64
	}{
		{
			name: "a key seen once is missing behind its deadline, before the record there", config: absenceConfig(10, false),
			records: []optest.Record{rec(1, "a", 1), rec(10, "b", 1), rec(11, "b", 1)},
			want:    "3:a,missing,1", times: []int64{1},
		},
		{
			name: "each row puts it off; the next one brings it back, told when it was seen before", config: absenceConfig(10, false),
			records: []optest.Record{rec(1, "a", 1), rec(9, "a", 1), rec(18, "a", 1), rec(27, "b", 1), rec(30, "a", 1), rec(31, "a", 1), rec(50, "b", 1)},
			want:    "5:a,missing,18 5:a,back,18 7:b,missing,27 7:a,missing,31 7:b,back,27", times: []int64{18, 30, 27, 31, 50},
		},
		{
			name: "by deadline, then key", config: absenceConfig(10, false),
			records: []optest.Record{rec(1, "c", 1), rec(2, "b", 1), rec(2, "a", 1), rec(99, "d", 1)},
			want:    "4:c,missing,1 4:a,missing,2 4:b,missing,2", times: []int64{1, 2, 2},
		},
		{
			name: "null is a key; rows without event time were seen at the wall clock", config: noTime,
			records: []optest.Record{untimed(1, "a"), {Elapsed: 2, Time: pipeline.NoTime, Slots: rec(2, nil, 1).Slots}, untimed(99, "b")},
			want:    "3:a,missing,0 3:null,missing,0", times: []int64{pipeline.NoTime, pipeline.NoTime},
		},
		{
			name: "one key too many", config: limited,
			records: []optest.Record{rec(1, "a", 1), rec(2, "b", 1), rec(3, "a", 1)}, dead: "2:max_keys",
		},
		{
			name: "by the watermark", config: absenceConfig(10, true),
			// The watermark is the newest time: 12 passes a's deadline 11 and comes behind the row; at the end of time all are missing.
			records: []optest.Record{timed(1, 1, "a", 1), timed(2, 5, "b", 1), timed(3, 12, "b", 1), timed(4, 14, "a", 1)},
			want:    "3:a,missing,1 4:a,back,1 5:b,missing,12 5:a,missing,14", times: []int64{11, 14, 22, 24},
		},
		{
			name: "a row whose own deadline has passed is late and brings nothing back", config: absenceConfig(10, true), late: 2,
			records: []optest.Record{timed(1, 1, "a", 1), timed(2, 50, "b", 1), timed(3, 40, "a", 1), timed(4, 39, "c", 1), timed(5, 41, "a", 1)},
			want:    "2:a,missing,1 5:a,back,1 6:a,missing,41 6:b,missing,50", times: []int64{11, 41, 51, 60},
		},
		{
			name: "the newest row of a key counts", config: absenceConfig(10, true),
			records: []optest.Record{timed(1, 8, "a", 1), timed(2, 3, "a", 1), timed(3, 17, "b", 1), timed(4, 18, "b", 1)},
			want:    "4:a,missing,8 5:b,missing,18", times: []int64{18, 28},
		},
		{
			name: "no event time", config: absenceConfig(10, true), records: []optest.Record{untimed(1, "a")}, dead: "1:no_time",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := c.config.Validate(); err != nil {
				t.Fatal(err)
			}
			result := run(t, optest.Config{Ports: 1, New: func() pipeline.Operator { return ops.NewAbsence(c.config) }}, c.records)
			if got := show(result.Ports[0], 0, 1, 2); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			for i, r := range result.Ports[0] {
				if i < len(c.times) && r.Time != c.times[i] {
					t.Errorf("row %d has the time %d, want %d", i, r.Time, c.times[i])
				}
				if seen := r.Slots[2].Int(); r.Slots[1].Str == ops.TransitionMissing && c.config.Timed && r.Deadline != seen+10 {
					t.Errorf("row %d stands at the deadline %d, want %d", i, r.Deadline, seen+10)
				}
			}
			if got := showDead(result.Dead); got != c.dead {
				t.Errorf("dead letters %s, want %s", got, c.dead)
			}
			if result.Counters.Late != c.late {
				t.Errorf("late %d, want %d", result.Counters.Late, c.late)
			}
		})
	}
}

// A row that a timer upstream made comes before the tick of its position: it counts from its deadline, and never takes
// back what a later row put off.
func TestAbsenceOfRowsMadeByTimers(t *testing.T) {
	var table tables
	op := ops.NewAbsence(absenceConfig(10, false))
	if err := op.Open(&table); err != nil {
		t.Fatal(err)
	}
	out := pipeline.NewOut("", 1)
	put := func(at pipeline.At, now int64) {
		out.At, out.Now = at, pipeline.Stamp{Elapsed: now}
		op.Process(0, &pipeline.Row{At: at, Time: pipeline.NoTime, Slots: rec(0, "a", 1).Slots}, out)
	}
	put(pipeline.At{Pos: 1, Phase: pipeline.During}, 100)
	put(pipeline.At{Pos: 2, Phase: pipeline.Before, Deadline: 95}, 100)
	if due, _ := op.Timers(); due != 110 {
		t.Errorf("due at %d, want 110", due)
	}
	put(pipeline.At{Pos: 2, Phase: pipeline.Before, Deadline: 105}, 100)
	if due, _ := op.Timers(); due != 115 {
		t.Errorf("due at %d, want 115", due)
	}
}
