package ops_test

import (
	"math"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/optest"
)

func counterConfig() ops.CounterConfig {
	return ops.CounterConfig{Keyed: byKey(), Carry: wide(2), Value: optest.Expr("value"), RateNs: 10, RateSlot: 1}
}

func TestCounter(t *testing.T) {
	series := func(values ...any) (records []optest.Record) {
		for i, v := range values {
			records = append(records, rec(int64(i+1)*10, "a", v))
		}
		return records
	}
	u16 := func(c *ops.CounterConfig) { c.WrapLast, c.StepMax = 65535, 1000 }
	for _, c := range []struct {
		keyedCase
		change func(*ops.CounterConfig)
	}{
		{keyedCase: keyedCase{name: "a rise, a reset to zero", records: series(100, 110, 0, 10), want: "1:null 2:10 3:0 4:10"}},
		{keyedCase: keyedCase{name: "a reset says nothing", records: series(100, 110, 5, 15), want: "1:null 2:10 3:null 4:10"},
			change: func(c *ops.CounterConfig) { c.ResetUnknown = true }},
		{keyedCase: keyedCase{name: "a wrap of 16 bits", records: series(65500, 65530, 4, 20), want: "1:null 2:30 3:10 4:16"}, change: u16},
		{keyedCase: keyedCase{name: "a wrap from the last to 0", records: series(65535, 0, 3), want: "1:null 2:1 3:3"}, change: u16},
		{keyedCase: keyedCase{name: "the step over the wrap is the largest one", records: series(65535, 999), want: "1:null 2:1000"}, change: u16},
		{keyedCase: keyedCase{name: "above it is a reset", records: series(65535, 1000), want: "1:null 2:1000"},
			change: func(c *ops.CounterConfig) { c.WrapLast, c.StepMax, c.ResetUnknown = 65535, 1000, false }},
		{keyedCase: keyedCase{name: "above it is a reset, unknown", records: series(65535, 1000), want: "1:null 2:null"},
			change: func(c *ops.CounterConfig) { u16(c); c.ResetUnknown = true }},
		{keyedCase: keyedCase{name: "64 bits", records: []optest.Record{u64(10, math.MaxUint64-1), u64(20, 5), u64(30, math.MaxUint64)},
			want: "1:null 2:7 3:1.8446744073709552e+19"}, change: func(c *ops.CounterConfig) { c.WrapLast, c.StepMax = math.MaxUint64, 1000 }},
		{keyedCase: keyedCase{name: "floats", records: series(1.5, 2.0, 0.25), want: "1:null 2:0.5 3:0.25"}},
		{keyedCase: keyedCase{name: "null is no measurement", records: series(1, nil, 3), want: "1:null 2:null 3:2"}},
		{keyedCase: keyedCase{name: "what is no counter", records: series(1, -1, "x", true, 2, -0.5), want: "1:null 5:1",
			dead: "2:expression 3:expression 4:expression 6:expression"}},
		{keyedCase: keyedCase{name: "above the wrap, or a fraction", records: series(65536, 1.5, 2), want: "3:null", dead: "1:expression 2:expression"}, change: u16},
		{keyedCase: keyedCase{name: "one key too many", records: []optest.Record{rec(1, "a", 1), rec(2, "b", 1)}, want: "1:null", dead: "2:max_keys"},
			change: func(c *ops.CounterConfig) { c.MaxKeys = 1 }},
		{keyedCase: keyedCase{name: "an older row is late and no reset", records: []optest.Record{rec(20, "a", 500), timed(21, 10, "a", 490), timed(22, 30, "a", 510)},
			want: "1:null 3:10", late: "2:490"}, change: func(c *ops.CounterConfig) { c.EventTime = true }},
		{keyedCase: keyedCase{name: "no event time", records: []optest.Record{timed(1, pipeline.NoTime, "a", 1)}, dead: "1:no_time"},
			change: func(c *ops.CounterConfig) { c.EventTime = true }},
	} {
		config := counterConfig()
		if c.change != nil {
			c.change(&config)
		}
		if err := config.Validate(); err != nil {
			t.Fatal(err)
		}
		c.op, c.slots = ops.NewCounter(config), []int{0}
		c.run(t)
	}
}

func timed(elapsed, time int64, key string, value any) optest.Record {
	r := rec(elapsed, key, value)
	r.Time = time
	return r
}

func u64(at int64, v uint64) optest.Record {
	r := rec(at, "a", nil)
	r.Slots[1] = pipeline.UintValue(v)
	return r
}

func TestCounterRate(t *testing.T) {
	elapsed := counterConfig()
	event := counterConfig()
	event.EventTime, event.RateNs = true, 1e9 // per second
	for _, c := range []keyedCase{
		{
			name: "by the journal's clock; null when no time went by", op: ops.NewCounter(elapsed),
			records: []optest.Record{rec(10, "a", 0), rec(30, "a", 5), rec(30, "a", 6), rec(35, "a", 8)},
			want:    "1:null,null 2:5,2.5 3:1,null 4:2,4",
		},
		{
			name: "by event time", op: ops.NewCounter(event),
			records: []optest.Record{timed(1, 1000, "a", 0), timed(2, 3000, "a", 5), timed(3, 3500, "a", 2)},
			want:    "1:null,null 2:5,2.5 3:2,4",
		},
		{
			name: "a rate that no float holds", op: ops.NewCounter(event),
			records: []optest.Record{timed(1, 1000, "a", 0), timed(2, 1001, "a", 1.7e308)},
			want:    "1:null,null 2:1.7e+308,null",
		},
	} {
		c.slots = []int{0, 1}
		c.run(t)
	}
}
