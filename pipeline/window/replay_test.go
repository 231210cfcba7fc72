package window_test

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/window"
)

var awkward = []pipeline.Value{
	{}, pipeline.IntValue(1), pipeline.FloatValue(1), pipeline.FloatValue(0.1), pipeline.IntValue(-3), pipeline.IntValue(math.MaxInt64),
	pipeline.UintValue(math.MaxUint64), pipeline.FloatValue(1e300), pipeline.FloatValue(-1e300), pipeline.FloatValue(1 << 63),
	pipeline.IntValue(math.MinInt64), pipeline.FloatValue(math.MaxFloat64),
}

var texts = []pipeline.Value{{}, pipeline.StringValue(""), pipeline.StringValue("a\x00b"), pipeline.StringValue("b"), pipeline.IntValue(5), pipeline.BoolValue(true)}

// drawRecords draws rows of key, number, any value.
func drawRecords(t *rapid.T) []optest.Record {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) optest.Record {
		return optest.Record{
			Time: rapid.OneOf(rapid.Just(int64(pipeline.NoTime)), rapid.Int64Range(-60, 60), rapid.Int64Range(-60, 60)).Draw(t, "time"),
			Slots: []pipeline.Value{
				rapid.SampledFrom(texts).Draw(t, "key"), rapid.SampledFrom(awkward).Draw(t, "number"), rapid.SampledFrom(texts).Draw(t, "any"),
			},
		}
	}), 0, 60).Draw(t, "records")
}

func drawConfig(t *rapid.T) window.TumblingConfig {
	size := rapid.SampledFrom([]int64{1, 7, 20}).Draw(t, "size")
	c := window.TumblingConfig{
		Key: []int{0}, SizeMs: size, OffsetMs: rapid.Int64Range(1-size, size-1).Draw(t, "offset"),
		LatenessMs: rapid.SampledFrom([]int64{0, 3, 30}).Draw(t, "lateness"), MaxKeys: rapid.SampledFrom([]int{0, 0, 4}).Draw(t, "max_keys"),
		KeyOut: []int{2}, StartSlot: 0, EndSlot: 1, RevisionSlot: 3, Width: 4,
	}
	for k := window.CountRows; k <= window.Rate; k++ {
		arg, p := "value", 0.0
		switch k {
		case window.Min, window.Max, window.First, window.Last, window.Distinct, window.Collect:
			if rapid.Bool().Draw(t, "of any value") {
				arg = "seq"
			}
		}
		if k == window.Collect || k == window.Percentile {
			p = float64(rapid.IntRange(1, 99).Draw(t, "second argument"))
		}
		c.Aggs = append(c.Aggs, window.Agg{Kind: k, Arg: optest.Expr(arg), Param: p, Slot: c.Width})
		c.Width++
	}
	return c
}

// drawTTL draws a TTL and gives the records times that rise, so that entries expire; now and then the clock comes alone.
func drawTTL(t *rapid.T, records []optest.Record) (ttl int64) {
	elapsed := int64(0)
	for i := range records {
		elapsed += rapid.Int64Range(0, 4).Draw(t, "passed")
		records[i].Elapsed, records[i].Bare = elapsed, rapid.IntRange(0, 7).Draw(t, "bare") == 0
	}
	return rapid.SampledFrom([]int64{0, 1, 5, 5, 60}).Draw(t, "ttl")
}

func TestReplayEquality(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, records := drawConfig(t), drawRecords(t)
		c.TTL = drawTTL(t, records)
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		replayAnywhere(t, optest.Config{
			New: func() pipeline.Operator { return window.NewTumbling(c) }, Ports: 2, OutOfOrdernessMs: rapid.Int64Range(0, 30).Draw(t, "out of orderness"), Keyed: true,
		}, records, c.TTL > 0)
	})
}

// firingOrder tells where rows of one firing are not in the order (end, start, key bytes).
func firingOrder(rows []pipeline.Row, start, end, key int) error {
	for i := 1; i < len(rows); i++ {
		a, b := rows[i-1], rows[i]
		if a.Phase != pipeline.After || b.Phase != pipeline.After || a.Pos != b.Pos {
			continue
		}
		ka, _ := pipeline.AppendKey(nil, a.Slots[key])
		kb, _ := pipeline.AppendKey(nil, b.Slots[key])
		if cmp.Or(cmp.Compare(a.Slots[end].Int(), b.Slots[end].Int()), cmp.Compare(a.Slots[start].Int(), b.Slots[start].Int()), bytes.Compare(ka, kb)) >= 0 {
			return fmt.Errorf("row %d, %v, comes before %v", i, a.Slots, b.Slots)
		}
	}
	return nil
}

func TestWindowsFireByEndStartAndKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		result, err := optest.Run(optest.Config{New: func() pipeline.Operator { return window.NewTumbling(c) }, Ports: 2}, drawRecords(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := firingOrder(result.Ports[0], 0, 1, 2); err != nil {
			t.Fatal(err)
		}
	})
}

// model names a window of a key.
type model struct {
	start int64
	key   string
}

// TestAgainstPlainModel compares which windows there are, what they count, how often they fire and what is late.
func TestAgainstPlainModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		c.MaxKeys = 0
		c.Aggs = []window.Agg{{Kind: window.CountRows, Slot: 4}, {Kind: window.Count, Arg: optest.Expr("value"), Slot: 5}}
		delay := rapid.Int64Range(0, 30).Draw(t, "out of orderness")
		records := drawRecords(t)
		result, err := optest.Run(optest.Config{New: func() pipeline.Operator { return window.NewTumbling(c) }, Ports: 2, OutOfOrdernessMs: delay}, records)
		if err != nil {
			t.Fatal(err)
		}
		rows, values, firings, late := map[model]int64{}, map[model]int64{}, map[model]int64{}, 0
		open := map[model]bool{}
		timeMax, begun := int64(0), false
		for _, r := range records {
			if r.Time == pipeline.NoTime {
				continue
			}
			start := r.Time - c.OffsetMs
			start = c.OffsetMs + start - (start%c.SizeMs+c.SizeMs)%c.SizeMs
			end := start + c.SizeMs
			key, _ := pipeline.AppendKey(nil, r.Slots[0])
			w := model{start, string(key)}
			switch {
			case begun && timeMax-delay >= end+c.LatenessMs:
				late++
				continue
			case begun && timeMax-delay >= end:
				firings[w]++
			default:
				open[w] = true
			}
			rows[w]++
			if !r.Slots[1].IsNull() {
				values[w]++
			}
			if !begun || r.Time > timeMax {
				timeMax, begun = r.Time, true
			}
			for o := range open {
				if timeMax-delay >= o.start+c.SizeMs {
					firings[o]++
					delete(open, o)
				}
			}
		}
		for o := range open {
			firings[o]++
		}
		if int(result.Counters.Late) != late || len(result.Ports[1]) != late {
			t.Fatalf("late %d, want %d", result.Counters.Late, late)
		}
		last := map[model]pipeline.Row{}
		total := int64(0)
		for _, r := range result.Ports[0] {
			key, _ := pipeline.AppendKey(nil, r.Slots[2])
			last[model{r.Slots[0].Int(), string(key)}] = r
		}
		for w, n := range firings {
			total += n
			r, ok := last[w]
			if !ok || r.Slots[3].Int() != n-1 || r.Slots[4].Int() != rows[w] || r.Slots[5].Int() != values[w] {
				t.Fatalf("window %v: got %v, want %d firings, %d rows, %d values", w, r.Slots, n, rows[w], values[w])
			}
		}
		if int64(len(result.Ports[0])) != total {
			t.Fatalf("%d rows, want %d", len(result.Ports[0]), total)
		}
	})
}

// TestPlantedKeptWindowIsFound: after a restore nothing waits for a window that had expired.
func TestPlantedKeptWindowIsFound(t *testing.T) {
	c := tumbling(time.Second, 0)
	c.TTL = 5
	records := []optest.Record{rec(1, "a", 1), {Elapsed: 10, Bare: true}}
	for _, planted := range []bool{false, true} {
		result, err := optest.Run(optest.Config{Ports: 2, Between: func(int) optest.Checkpoint { return optest.Restore }, New: func() pipeline.Operator {
			op := window.NewTumbling(c)
			if planted {
				op.PlantKept()
			}
			return op
		}}, records)
		if found := err != nil; found != planted {
			t.Errorf("planted %v, found %v (%v)", planted, found, err)
		}
		if !planted && (len(result.Ports[0]) != 0 || result.Counters.Dropped != 1) {
			t.Errorf("fired %v and dropped %d, want nothing and one", result.Ports[0], result.Counters.Dropped)
		}
	}
}
