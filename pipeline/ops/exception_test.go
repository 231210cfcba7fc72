package ops_test

import (
	"math"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/optest"
)

func TestDeadband(t *testing.T) {
	for _, c := range []struct {
		name       string
		config     ops.DeadbandConfig
		records    []optest.Record
		want, dead string
		dropped    uint64
	}{
		{
			name:    "first passes, then only more than the threshold",
			records: []optest.Record{rec(1, "a", 10), rec(2, "a", 10.5), rec(3, "a", 10.6), rec(4, "a", 10.2), rec(5, "a", 10.0)},
			want:    "1:10 3:10.6 5:10", dropped: 2,
		},
		{
			name:    "keys are apart, null is a key",
			records: []optest.Record{rec(1, "a", 1), rec(2, nil, 1), rec(3, "b", 1), rec(4, nil, 1)},
			want:    "1:1 2:1 3:1", dropped: 1,
		},
		{
			name:    "a null value is dropped and forgets nothing",
			records: []optest.Record{rec(1, "a", 1), rec(2, "a", nil), rec(3, "a", 1)},
			want:    "1:1", dropped: 2,
		},
		{
			name:    "text is no measurement",
			records: []optest.Record{rec(1, "a", "1"), rec(2, "a", 1)},
			want:    "2:1", dead: "1:expression",
		},
		{
			name:    "integers are compared exactly",
			records: []optest.Record{rec(1, "a", int64(1<<53)), rec(2, "a", int64(1<<53+1)), rec(3, "a", int64(math.MinInt64)), rec(4, "a", int64(math.MaxInt64))},
			want:    "1:9007199254740992 2:9007199254740993 3:-9223372036854775808 4:9223372036854775807",
		},
		{
			name:    "behind the ttl the next one passes whatever it is",
			config:  ops.DeadbandConfig{TTL: 10},
			records: []optest.Record{rec(1, "a", 1), rec(10, "a", 1), rec(11, "a", 1), rec(20, "a", 1)},
			want:    "1:1 3:1", dropped: 2,
		},
		{
			name:    "one key too many",
			config:  ops.DeadbandConfig{MaxKeys: 1},
			records: []optest.Record{rec(1, "a", 1), rec(2, "b", 1), rec(3, "a", 2)},
			want:    "1:1 3:2", dead: "2:max_keys",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.Key, c.config.Value, c.config.Threshold = []int{0}, optest.Expr("value"), 0.5
			if err := c.config.Validate(); err != nil {
				t.Fatal(err)
			}
			result := run(t, optest.Config{Ports: 1, New: func() pipeline.Operator { return ops.NewDeadband(c.config) }}, c.records)
			if got := show(result.Ports[0], 1); got != c.want {
				t.Errorf("passed %s, want %s", got, c.want)
			}
			if got := showDead(result.Dead); got != c.dead {
				t.Errorf("dead letters %s, want %s", got, c.dead)
			}
			if result.Counters.Dropped != c.dropped {
				t.Errorf("dropped %d, want %d", result.Counters.Dropped, c.dropped)
			}
		})
	}
}

func TestDedup(t *testing.T) {
	for _, c := range []struct {
		name       string
		config     ops.DedupConfig
		records    []optest.Record
		want, dead string
	}{
		{
			name:    "the first copy passes; equal numbers are equal",
			records: []optest.Record{rec(1, "a", 1), rec(2, "a", 1.0), rec(3, "a", 2), rec(4, "b", 1)},
			want:    "1:1 3:2 4:1",
		},
		{
			name:    "the ttl counts from the first copy: another copy does not lengthen it",
			config:  ops.DedupConfig{TTL: 10},
			records: []optest.Record{rec(1, "a", 1), rec(10, "a", 1), rec(11, "a", 1), rec(20, "a", 1), rec(21, "a", 1)},
			want:    "1:1 3:1 5:1",
		},
		{
			name:    "null is equal to nothing",
			records: []optest.Record{rec(1, "a", nil), rec(2, "a", nil), rec(3, nil, 1), rec(4, nil, 1)},
			want:    "1:null 2:null 3:1 4:1",
		},
		{
			name:    "one key too many",
			config:  ops.DedupConfig{MaxKeys: 1},
			records: []optest.Record{rec(1, "a", 1), rec(2, "b", 1), rec(3, "a", 1)},
			want:    "1:1", dead: "2:max_keys",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.config.Key = []*expr.Program{optest.Expr("key"), optest.Expr("value")}
			if err := c.config.Validate(); err != nil {
				t.Fatal(err)
			}
			result := run(t, optest.Config{Ports: 1, New: func() pipeline.Operator { return ops.NewDedup(c.config) }}, c.records)
			if got := show(result.Ports[0], 1); got != c.want {
				t.Errorf("passed %s, want %s", got, c.want)
			}
			if got := showDead(result.Dead); got != c.dead {
				t.Errorf("dead letters %s, want %s", got, c.dead)
			}
		})
	}
}

func TestDedupRefusesAKeyThatFails(t *testing.T) {
	c := ops.DedupConfig{Key: []*expr.Program{optest.Expr("value * 2")}}
	result := run(t, optest.Config{Ports: 1, New: func() pipeline.Operator { return ops.NewDedup(c) }}, []optest.Record{rec(1, "a", "text")})
	if got := showDead(result.Dead); got != "1:expression" {
		t.Errorf("dead letters %s, want 1:expression", got)
	}
}

// Rows that a timer upstream made come before the tick of their position: their time is the timer's deadline.
func TestTTLOfRowsMadeByTimersCountsFromTheDeadline(t *testing.T) {
	var table tables
	op := ops.NewDedup(ops.DedupConfig{Key: []*expr.Program{optest.Expr("key")}, TTL: 10})
	if err := op.Open(&table); err != nil {
		t.Fatal(err)
	}
	out := pipeline.NewOut("", 1)
	passed := func(at pipeline.At, now int64) bool {
		table.held.SetNow(now)
		out.Reset()
		out.At, out.Now = at, pipeline.Stamp{Elapsed: now}
		op.Process(0, &pipeline.Row{At: at, Slots: rec(0, "a", 1).Slots}, out)
		return len(out.Ports[0]) == 1
	}
	if !passed(pipeline.At{Pos: 2, Phase: pipeline.Before, Deadline: 50}, 1) {
		t.Fatal("the first copy was dropped")
	}
	if passed(pipeline.At{Pos: 3, Phase: pipeline.During}, 59) {
		t.Error("a copy passed 9 ns behind the first")
	}
	if !passed(pipeline.At{Pos: 4, Phase: pipeline.During}, 60) {
		t.Error("a copy was dropped 10 ns behind the first")
	}
}
