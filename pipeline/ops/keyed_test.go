package ops_test

import (
	"math"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/optest"
)

// wide carries the four slots of a record behind n own columns.
func wide(n int) ops.Carry {
	var c ops.Carry
	for range n {
		c = append(c, -1)
	}
	return append(c, 0, 1, 2, 3)
}

func byKey() ops.Keyed { return ops.Keyed{Key: []int{0}} }

// keyedCase is an operator over records: own column and value of what passes, dead letters, and what was dropped.
type keyedCase struct {
	name       string
	op         pipeline.Operator
	records    []optest.Record
	slots      []int
	want, dead string
	late       string
	dropped    uint64
}

func (c keyedCase) run(t *testing.T) {
	t.Run(c.name, func(t *testing.T) {
		used := false
		result := run(t, optest.Config{Ports: 2, New: func() pipeline.Operator {
			if used {
				t.Fatal("made twice")
			}
			used = true
			return c.op
		}}, c.records)
		if got := show(result.Ports[0], c.slots...); got != c.want {
			t.Errorf("passed %s, want %s", got, c.want)
		}
		if got := show(result.Ports[1], 1); got != c.late {
			t.Errorf("late %s, want %s", got, c.late)
		}
		if got := showDead(result.Dead); got != c.dead {
			t.Errorf("dead letters %s, want %s", got, c.dead)
		}
		if result.Counters.Dropped != c.dropped {
			t.Errorf("dropped %d, want %d", result.Counters.Dropped, c.dropped)
		}
	})
}

func TestChanged(t *testing.T) {
	with := func(k ops.Keyed) pipeline.Operator {
		return ops.NewChanged(ops.ChangedConfig{Keyed: k, Value: optest.Expr("value")})
	}
	for _, c := range []keyedCase{
		{
			name: "first passes, then what differs; equal numbers are equal", op: with(byKey()), dropped: 2,
			records: []optest.Record{rec(1, "a", 1), rec(2, "a", 1.0), rec(3, "a", 2), rec(4, "b", 2), rec(5, "a", 2), rec(6, "a", "2")},
			want:    "1:1 3:2 4:2 6:2",
		},
		{
			name: "a null is no measurement and forgets nothing", op: with(byKey()), dropped: 2,
			records: []optest.Record{rec(1, "a", 1), rec(2, "a", nil), rec(3, "a", 1)},
			want:    "1:1",
		},
		{
			name: "exact beyond 2^53", op: with(byKey()),
			records: []optest.Record{rec(1, "a", int64(1<<53)), rec(2, "a", int64(1<<53+1))},
			want:    "1:9007199254740992 2:9007199254740993",
		},
		{
			name: "behind the ttl the next one passes whatever it is; a copy does not lengthen it", dropped: 2,
			op:      with(ops.Keyed{Key: []int{0}, TTL: 10}),
			records: []optest.Record{rec(1, "a", 1), rec(5, "a", 1), rec(10, "a", 1), rec(11, "a", 1)},
			want:    "1:1 4:1",
		},
		{
			name: "one key too many", op: with(ops.Keyed{Key: []int{0}, MaxKeys: 1}),
			records: []optest.Record{rec(1, "a", 1), rec(2, "b", 1), rec(3, "a", 2)},
			want:    "1:1 3:2", dead: "2:max_keys",
		},
		{
			name: "a value that fails", op: ops.NewChanged(ops.ChangedConfig{Keyed: byKey(), Value: optest.Expr("value * 2")}),
			records: []optest.Record{rec(1, "a", "x"), rec(2, "a", 1)}, want: "2:1", dead: "1:expression",
		},
	} {
		c.slots = []int{1}
		c.run(t)
	}
}

func TestLag(t *testing.T) {
	with := func(n int, k ops.Keyed) pipeline.Operator {
		return ops.NewLag(ops.LagConfig{Keyed: k, Carry: wide(1), Value: optest.Expr("value"), N: n})
	}
	for _, c := range []keyedCase{
		{
			name: "the row before of the same key", op: with(1, byKey()),
			records: []optest.Record{rec(1, "a", 1), rec(2, "b", 2), rec(3, "a", 3), rec(4, "a", "text"), rec(5, "a", 5)},
			want:    "1:null,1 2:null,2 3:1,3 4:3,text 5:text,5",
		},
		{
			name: "three rows before; null counts as a row", op: with(3, byKey()),
			records: []optest.Record{rec(1, "a", 1), rec(2, "a", nil), rec(3, "a", 3), rec(4, "a", 4), rec(5, "a", 5), rec(6, "a", true)},
			want:    "1:null,1 2:null,null 3:null,3 4:1,4 5:null,5 6:3,true",
		},
		{
			name: "behind the ttl there is no row before", op: with(1, ops.Keyed{Key: []int{0}, TTL: 10}),
			records: []optest.Record{rec(1, "a", 1), rec(10, "a", 2), rec(20, "a", 3)},
			want:    "1:null,1 2:1,2 3:null,3",
		},
		{
			name: "one key too many", op: with(1, ops.Keyed{Key: []int{0}, MaxKeys: 1}),
			records: []optest.Record{rec(1, "a", 1), rec(2, "b", 1), rec(3, "a", 2)},
			want:    "1:null,1 3:1,2", dead: "2:max_keys",
		},
	} {
		c.slots = []int{0, 2}
		c.run(t)
	}
}

func TestDelta(t *testing.T) {
	with := func(k ops.Keyed) pipeline.Operator {
		return ops.NewDelta(ops.DeltaConfig{Keyed: k, Carry: wide(1), Value: optest.Expr("value")})
	}
	for _, c := range []keyedCase{
		{
			name: "less the one before of the same key", op: with(byKey()),
			records: []optest.Record{rec(1, "a", 10), rec(2, "b", 1), rec(3, "a", 7), rec(4, "a", 7.5)},
			want:    "1:null,10 2:null,1 3:-3,7 4:0.5,7.5",
		},
		{
			name: "a null passes and is passed over", op: with(byKey()),
			records: []optest.Record{rec(1, "a", 10), rec(2, "a", nil), rec(3, "a", 12)},
			want:    "1:null,10 2:null,null 3:2,12",
		},
		{
			name: "exact beyond 2^53; what does not fit is refused and changes nothing", op: with(byKey()),
			records: []optest.Record{rec(1, "a", int64(1<<53)), rec(2, "a", int64(1<<53+1)), rec(3, "a", int64(math.MinInt64)), rec(4, "a", int64(-2)),
				rec(5, "a", 1e308), rec(6, "a", -1e308), rec(7, "a", "x")},
			want: "1:null,9007199254740992 2:1,9007199254740993 4:-9007199254740995,-2 5:1e+308,1e+308", dead: "3:overflow 6:overflow 7:expression",
		},
	} {
		c.slots = []int{0, 2}
		c.run(t)
	}
}

func TestThrottle(t *testing.T) {
	with := func(event bool, k ops.Keyed) pipeline.Operator {
		return ops.NewThrottle(ops.ThrottleConfig{Keyed: k, Interval: 10, EventTime: event})
	}
	at := func(elapsed, time int64, key string) optest.Record {
		return optest.Record{Elapsed: elapsed, Time: time, Slots: []pipeline.Value{val(key), val(time), {}, {}}}
	}
	none := at(9, pipeline.NoTime, "a")
	none.Slots[1] = pipeline.Value{}
	for _, c := range []keyedCase{
		{
			name: "by the journal's clock", op: with(false, byKey()), dropped: 2,
			records: []optest.Record{rec(0, "a", 0), rec(9, "a", 1), rec(9, "b", 2), rec(10, "a", 3), rec(19, "a", 4), rec(19, "b", 5), rec(25, "a", 6)},
			want:    "1:0 3:2 4:3 6:5 7:6",
		},
		{
			name: "by event time: an older row is dropped", op: with(true, byKey()), dropped: 3,
			records: []optest.Record{at(0, 100, "a"), at(1, 109, "a"), at(2, 110, "a"), at(3, 50, "a"), at(4, 119, "a"), at(5, 300, "a")},
			want:    "1:100 3:110 6:300",
		},
		{
			name: "no event time, one key too many", op: with(true, ops.Keyed{Key: []int{0}, MaxKeys: 1}),
			records: []optest.Record{none, at(9, 1, "a"), at(10, 2, "b")},
			want:    "2:1", dead: "1:no_time 3:max_keys",
		},
	} {
		c.slots = []int{1}
		c.run(t)
	}
}

func TestSample(t *testing.T) {
	for _, c := range []keyedCase{
		{
			name: "each third of a key", op: ops.NewSample(ops.SampleConfig{Keyed: byKey(), Every: 3}), dropped: 5,
			records: []optest.Record{rec(1, "a", 1), rec(2, "a", 2), rec(3, "b", 3), rec(4, "a", 4), rec(5, "a", 5), rec(6, "b", 6), rec(7, "b", 7)},
			want:    "4:4 7:7",
		},
		{
			name: "each", op: ops.NewSample(ops.SampleConfig{Keyed: byKey(), Every: 1}),
			records: []optest.Record{rec(1, "a", 1), rec(2, "a", 2)}, want: "1:1 2:2",
		},
	} {
		c.slots = []int{1}
		c.run(t)
	}
}
