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

func drawKeyed(t *rapid.T) ops.Keyed {
	return ops.Keyed{Key: []int{0}, MaxKeys: rapid.IntRange(0, 3).Draw(t, "max_keys"), TTL: rapid.Int64Range(0, 60).Draw(t, "ttl")}
}

func drawValue(t *rapid.T) pipeline.Value {
	return rapid.SampledFrom([]pipeline.Value{
		{}, pipeline.IntValue(1), pipeline.FloatValue(1), pipeline.FloatValue(2.5), pipeline.IntValue(-3), pipeline.StringValue("x\x00y"),
		pipeline.BoolValue(true), pipeline.JSONValue("[1,{\"t\":2}]"), pipeline.IntValue(7), pipeline.IntValue(7),
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
		"changed": func(t *rapid.T) func() pipeline.Operator {
			c := ops.ChangedConfig{Keyed: drawKeyed(t), Value: optest.Expr("value")}
			return func() pipeline.Operator { return ops.NewChanged(c) }
		},
		"lag": func(t *rapid.T) func() pipeline.Operator {
			c := ops.LagConfig{Keyed: drawKeyed(t), Carry: wide(1), Value: optest.Expr("value"), N: rapid.IntRange(1, 4).Draw(t, "n")}
			return func() pipeline.Operator { return ops.NewLag(c) }
		},
		"delta": func(t *rapid.T) func() pipeline.Operator {
			c := ops.DeltaConfig{Keyed: drawKeyed(t), Carry: wide(1), Value: optest.Expr("value")}
			return func() pipeline.Operator { return ops.NewDelta(c) }
		},
		"counter": func(t *rapid.T) func() pipeline.Operator {
			c := counterConfig()
			c.Keyed, c.EventTime, c.ResetUnknown = drawKeyed(t), rapid.Bool().Draw(t, "event"), rapid.Bool().Draw(t, "unknown")
			if rapid.Bool().Draw(t, "wraps") {
				c.WrapLast, c.StepMax = 9, rapid.Uint64Range(1, 9).Draw(t, "step")
			}
			return func() pipeline.Operator { return ops.NewCounter(c) }
		},
		"zscore in blocks": func(t *rapid.T) func() pipeline.Operator {
			c := zscoreConfig(rapid.IntRange(2, 9).Draw(t, "n"), rapid.Float64Range(0, 2).Draw(t, "limit"))
			c.Keyed = drawKeyed(t)
			c.TTL = 0
			size := rapid.IntRange(1, 4).Draw(t, "block")
			return func() pipeline.Operator { return ops.ZScoreOfBlocks(c, size) }
		},
		"zscore": func(t *rapid.T) func() pipeline.Operator {
			c := zscoreConfig(rapid.IntRange(2, 4).Draw(t, "n"), rapid.Float64Range(0, 2).Draw(t, "limit"))
			c.Keyed = drawKeyed(t)
			return func() pipeline.Operator { return ops.NewZScore(c) }
		},
		"throttle": func(t *rapid.T) func() pipeline.Operator {
			c := ops.ThrottleConfig{Keyed: drawKeyed(t), Interval: rapid.Int64Range(1, 60).Draw(t, "interval"), EventTime: rapid.Bool().Draw(t, "event")}
			return func() pipeline.Operator { return ops.NewThrottle(c) }
		},
		"sample": func(t *rapid.T) func() pipeline.Operator {
			c := ops.SampleConfig{Keyed: drawKeyed(t), Every: rapid.IntRange(1, 4).Draw(t, "every")}
			return func() pipeline.Operator { return ops.NewSample(c) }
		},
		"absence": func(t *rapid.T) func() pipeline.Operator {
			c := absenceConfig(rapid.Int64Range(1, 60).Draw(t, "after"), rapid.Bool().Draw(t, "event"))
			c.Timed, c.MaxKeys = rapid.Bool().Draw(t, "timed"), rapid.IntRange(0, 3).Draw(t, "max_keys")
			return func() pipeline.Operator { return ops.NewAbsence(c) }
		},
		"flatten": func(*rapid.T) func() pipeline.Operator {
			return func() pipeline.Operator { return ops.NewFlatten(flattenConfig()) }
		},
		"split": func(*rapid.T) func() pipeline.Operator {
			return func() pipeline.Operator { return ops.NewSplit([]*expr.Program{optest.Expr("value > 1")}) }
		},
		"share": func(*rapid.T) func() pipeline.Operator {
			return func() pipeline.Operator { return ops.NewShare(ops.ShareConfig{Key: []int{0}, Parts: 5000}) }
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
