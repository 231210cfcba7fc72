package ops_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/optest"
)

// drawRecords draws rows of few keys and few values, so that operators have something to remember: key, value, seq, text.
func drawRecords(t *rapid.T) []optest.Record {
	elapsed := int64(0)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) optest.Record {
		elapsed += rapid.Int64Range(0, 20).Draw(t, "elapsed")
		return optest.Record{
			Input:   rapid.IntRange(0, 1).Draw(t, "input"),
			Elapsed: elapsed,
			Time:    rapid.OneOf(rapid.Just(int64(pipeline.NoTime)), rapid.Int64Range(-50, 50), rapid.Int64Range(-50, 50)).Draw(t, "time"),
			Slots: []pipeline.Value{
				drawValue(t), drawValue(t), pipeline.IntValue(rapid.Int64Range(0, 5).Draw(t, "seq")),
				pipeline.StringValue(rapid.SampledFrom([]string{"", "a\x00", "b"}).Draw(t, "text")),
			},
		}
	}), 0, 60).Draw(t, "records")
}

func drawValue(t *rapid.T) pipeline.Value {
	return rapid.SampledFrom([]pipeline.Value{
		{}, pipeline.IntValue(1), pipeline.FloatValue(1), pipeline.FloatValue(2.5), pipeline.IntValue(-3), pipeline.StringValue("x\x00y"),
		pipeline.BoolValue(true), pipeline.IntValue(7), pipeline.IntValue(7),
	}).Draw(t, "value")
}

func TestReplayEquality(t *testing.T) {
	for name, draw := range map[string]func(*rapid.T) func() pipeline.Operator{
		"filter": func(*rapid.T) func() pipeline.Operator {
			return func() pipeline.Operator { return ops.NewFilter(optest.Expr("value > 1")) }
		},
		"select": func(*rapid.T) func() pipeline.Operator {
			columns := []ops.Column{{Slot: 1, Prog: optest.Expr("key")}, {Slot: 2, Prog: optest.Expr("value > 1")}}
			return func() pipeline.Operator { return ops.NewSelect(columns, 3) }
		},
		"union": func(*rapid.T) func() pipeline.Operator {
			return func() pipeline.Operator { return ops.NewUnion([][]int{{0, 1, 2, 3}, {3, -1, 0, 1}}, 4) }
		},
		"deadband": func(t *rapid.T) func() pipeline.Operator {
			c := ops.DeadbandConfig{Key: []int{0}, Value: optest.Expr("value"), Threshold: 1.5, MaxKeys: rapid.IntRange(0, 3).Draw(t, "max_keys"),
				TTL: rapid.Int64Range(0, 60).Draw(t, "ttl")}
			return func() pipeline.Operator { return ops.NewDeadband(c) }
		},
		"dedup": func(t *rapid.T) func() pipeline.Operator {
			c := ops.DedupConfig{Key: []*expr.Program{optest.Expr("seq"), optest.Expr("topic")}, MaxKeys: rapid.IntRange(0, 6).Draw(t, "max_keys"),
				TTL: rapid.Int64Range(0, 100).Draw(t, "ttl")}
			return func() pipeline.Operator { return ops.NewDedup(c) }
		},
		"alarm": func(t *rapid.T) func() pipeline.Operator {
			c := alarmConfig("value > 2", "value < 0")
			c.Value = optest.Expr("topic")
			c.HoldNs = rapid.SampledFrom([]int64{0, 1, 15, 40}).Draw(t, "hold")
			c.Latch = rapid.Bool().Draw(t, "latch")
			c.MaxKeys = rapid.IntRange(0, 2).Draw(t, "max_keys")
			if !c.Latch && rapid.Bool().Draw(t, "clears when raise stops") {
				c.Clear = nil
			}
			return func() pipeline.Operator { return ops.NewAlarm(c) }
		},
		"sort": func(t *rapid.T) func() pipeline.Operator {
			c := ops.SortConfig{MaxKeys: rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "max_keys")}
			return func() pipeline.Operator { return ops.NewSort(c) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				c := optest.Config{New: draw(t), Ports: 2, OutOfOrdernessMs: rapid.Int64Range(0, 30).Draw(t, "out of orderness"), Keyed: name != "sort"}
				optest.ReplayEquality(t, c, drawRecords(t))
			})
		})
	}
}
