package join_test

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/join"
	"github.com/weirstream/weir/pipeline/optest"
)

// The rows of these tests are those of optest: key, value, seq (the number of the record), topic. Joined ones are key, left seq, right seq,
// and of windows start and end.
func sides() [2]join.Side {
	side := join.Side{Key: []int{optest.SlotKey}, Keep: []int{optest.SlotKey, optest.SlotSeq}}
	return [2]join.Side{side, side}
}

func output(windows bool) join.Output {
	o := join.Output{Fields: []join.Field{{From: join.FromEither}, {From: join.FromLeft, Index: 1}, {From: join.FromRight, Index: 1}}, Width: 3}
	if windows {
		o.Fields = append(o.Fields, join.Field{From: join.FromStart}, join.Field{From: join.FromEnd})
		o.Width = 5
	}
	return o
}

// show writes a row as the models do.
func show(r *pipeline.Row) string {
	seq := func(v pipeline.Value) string {
		if v.IsNull() {
			return "-"
		}
		return fmt.Sprint(v.Int())
	}
	text := fmt.Sprintf("%d/%d/%d: %s %s at %d", uint64(r.Pos), r.Phase, r.Deadline, seq(r.Slots[1]), seq(r.Slots[2]), r.Time)
	if len(r.Slots) > 3 {
		text += fmt.Sprintf(" in [%d, %d)", r.Slots[3].Int(), r.Slots[4].Int())
	}
	return text
}

func showAll(rows []pipeline.Row) string {
	var lines []string
	for i := range rows {
		lines = append(lines, show(&rows[i]))
	}
	return strings.Join(lines, "\n")
}

var keys = []pipeline.Value{
	pipeline.StringValue("a"), pipeline.StringValue("b"), pipeline.IntValue(1), pipeline.FloatValue(1), pipeline.StringValue("a"), pipeline.StringValue("a"), {},
}

// drawRecords draws rows of both inputs: few keys, times that wander and tie. wander is how far they do.
func drawRecords(t *rapid.T, wander int64) []optest.Record {
	elapsed, base, seq := int64(0), int64(0), int64(0)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) optest.Record {
		elapsed += rapid.Int64Range(0, 20).Draw(t, "elapsed")
		base += rapid.SampledFrom([]int64{0, 0, 1, 3, 9}).Draw(t, "ahead")
		seq++
		r := optest.Record{
			Input: rapid.IntRange(0, 1).Draw(t, "input"), Elapsed: elapsed, Time: base - rapid.Int64Range(0, wander).Draw(t, "behind"),
			Slots: []pipeline.Value{rapid.SampledFrom(keys).Draw(t, "key"), {}, pipeline.IntValue(seq), pipeline.StringValue("t")},
		}
		if rapid.IntRange(0, 30).Draw(t, "timeless") == 0 {
			r.Time = pipeline.NoTime
		}
		return r
	}), 0, 50).Draw(t, "records")
}

// arrived is a row that a model took in.
type arrived struct {
	n       int // of the record
	side    int
	time    int64
	key     string
	null    bool
	seq     int64
	matched bool
}

func (a *arrived) order(b *arrived) int {
	return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.n, b.n))
}

func arrival(n int, r optest.Record) *arrived {
	key, _ := pipeline.AppendKey(nil, r.Slots[optest.SlotKey])
	return &arrived{n: n, side: r.Input, time: r.Time, key: string(key), null: r.Slots[optest.SlotKey].IsNull(), seq: r.Slots[optest.SlotSeq].Int()}
}

// pairText is a joined row as show writes it; a and b are the two sides, either nil.
func pairText(a, b *arrived) string {
	text := [2]string{"-", "-"}
	for _, x := range []*arrived{a, b} {
		if x != nil {
			text[x.side] = fmt.Sprint(x.seq)
		}
	}
	return text[0] + " " + text[1]
}

func keeps(typ join.Type, side int) bool {
	return typ == join.Full || typ == join.LeftOuter && side == join.Left
}

// modelInterval is the nested-loop definition: every pair that the condition allows, every row without one.
func modelInterval(c join.IntervalConfig, delay int64, records []optest.Record) (rows, late []string) {
	var all []*arrived
	watermark, timeMax, begun := int64(pipeline.MinWatermark), int64(0), false
	partners := func(a, b *arrived) bool {
		if a.side == b.side || a.key != b.key || a.null {
			return false
		}
		if a.side == join.Right {
			a, b = b, a
		}
		return a.time-c.BeforeMs <= b.time && b.time <= a.time+c.AfterMs
	}
	pass := func(pos int, w int64) {
		var due []*arrived
		for _, a := range all {
			if last := a.last(c); last < w && last >= watermark && !a.matched && !a.null && keeps(c.Type, a.side) {
				due = append(due, a)
			}
		}
		slices.SortFunc(due, func(a, b *arrived) int {
			return cmp.Or(cmp.Compare(a.last(c), b.last(c)), bytes.Compare([]byte(a.key), []byte(b.key)), cmp.Compare(a.side, b.side), a.order(b))
		})
		for _, a := range due {
			rows = append(rows, fmt.Sprintf("%d/%d/%d: %s at %d", pos, pipeline.After, a.last(c)+1, pairText(a, nil), a.last(c)))
		}
		watermark = w
	}
	for n, r := range records {
		if r.Time == pipeline.NoTime {
			continue
		}
		a := arrival(n, r)
		place := fmt.Sprintf("%d/%d/0: ", n+1, pipeline.During)
		if a.time < watermark {
			late = append(late, place+pairText(a, nil)+fmt.Sprintf(" at %d", a.time))
			continue
		}
		if a.null && keeps(c.Type, a.side) {
			rows = append(rows, place+pairText(a, nil)+fmt.Sprintf(" at %d", a.time))
		}
		var found []*arrived
		for _, b := range all {
			if partners(a, b) {
				found = append(found, b)
				a.matched, b.matched = true, true
			}
		}
		slices.SortFunc(found, (*arrived).order)
		for _, b := range found {
			rows = append(rows, place+pairText(a, b)+fmt.Sprintf(" at %d", max(a.time, b.time)))
		}
		all = append(all, a)
		if !begun || a.time > timeMax {
			timeMax, begun = a.time, true
			if w := timeMax - delay; w > watermark {
				pass(n+1, w)
			}
		}
	}
	pass(len(records)+1, pipeline.MaxWatermark)
	return rows, late
}

// last is the last instant at which a partner of a row can come.
func (a *arrived) last(c join.IntervalConfig) int64 {
	if a.side == join.Right {
		return a.time + c.BeforeMs
	}
	return a.time + c.AfterMs
}
