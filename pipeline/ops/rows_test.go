package ops_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/optest"
)

// rec is a record of key and value, at elapsed ns and event time ms of the same number.
func rec(at int64, key, value any) optest.Record {
	return optest.Record{Elapsed: at, Time: at, Slots: []pipeline.Value{val(key), val(value), {}, {}}}
}

func val(x any) pipeline.Value {
	switch x := x.(type) {
	case nil:
		return pipeline.Value{}
	case int64:
		return pipeline.IntValue(x)
	case int:
		return pipeline.IntValue(int64(x))
	case float64:
		return pipeline.FloatValue(x)
	case bool:
		return pipeline.BoolValue(x)
	case string:
		return pipeline.StringValue(x)
	}
	panic(fmt.Sprintf("no value of %T", x))
}

// show writes rows as "position:slot,slot" so that a test reads as a table.
func show(rows []pipeline.Row, slots ...int) string {
	var b strings.Builder
	for i, r := range rows {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%d:", uint64(r.Pos))
		for j, s := range slots {
			if j > 0 {
				b.WriteByte(',')
			}
			b.WriteString(showValue(r.Slots[s]))
		}
	}
	return b.String()
}

func showValue(v pipeline.Value) string {
	switch v.Kind {
	case pipeline.Null:
		return "null"
	case pipeline.Bool:
		return fmt.Sprint(v.Bool())
	case pipeline.String, pipeline.JSON:
		return v.Str
	case pipeline.Int:
		return fmt.Sprint(v.Int())
	}
	f, _ := v.AsFloat()
	return fmt.Sprint(f)
}

func showDead(dead []pipeline.DeadRow) string {
	var parts []string
	for _, d := range dead {
		parts = append(parts, fmt.Sprintf("%d:%s", uint64(d.Pos), d.Reason))
	}
	return strings.Join(parts, " ")
}

func TestFilterPassesWhatIsTrue(t *testing.T) {
	result := run(t, optest.Config{Ports: 1, New: func() pipeline.Operator { return ops.NewFilter(optest.Expr("value > 1")) }}, []optest.Record{
		rec(1, "a", 2), rec(2, "a", 1), rec(3, "a", nil), rec(4, "a", "text"), rec(5, "a", 1.5),
	})
	if got := show(result.Ports[0], 1); got != "1:2 5:1.5" {
		t.Errorf("passed %s", got)
	}
	if got := showDead(result.Dead); got != "4:expression" {
		t.Errorf("dead letters %s", got)
	}
	if want := (pipeline.Counters{In: 5, Emitted: 2, Dropped: 2, Dead: 1}); result.Counters != want {
		t.Errorf("counted %+v, want %+v", result.Counters, want)
	}
}

func TestSelectKeepsEventTimeAndRefusesRowsWhole(t *testing.T) {
	columns := []ops.Column{{Slot: 0, Prog: optest.Expr("value * 2")}, {Slot: 2, Prog: optest.Expr("key")}}
	result := run(t, optest.Config{Ports: 1, New: func() pipeline.Operator { return ops.NewSelect(columns, 3) }}, []optest.Record{
		rec(7, "a", 2), rec(8, "a", "text"), rec(9, "b", nil),
	})
	if got := show(result.Ports[0], 0, 1, 2); got != "1:4,null,a 3:null,null,b" {
		t.Errorf("made %s", got)
	}
	if result.Ports[0][0].Time != 7 || result.Ports[0][1].Time != 9 {
		t.Errorf("event times %d and %d, want 7 and 9", result.Ports[0][0].Time, result.Ports[0][1].Time)
	}
	if got := showDead(result.Dead); got != "2:expression" {
		t.Errorf("dead letters %s", got)
	}
}

func TestUnionMapsFieldsByName(t *testing.T) {
	second := rec(2, "b", 5)
	second.Input = 1
	result := run(t, optest.Config{Ports: 1, New: func() pipeline.Operator { return ops.NewUnion([][]int{{0, 1, 2, 3}, {1, -1, -1, 0}}, 4) }},
		[]optest.Record{rec(1, "a", 4), second})
	if got := show(result.Ports[0], 0, 1, 2, 3); got != "1:a,4,null,null 2:5,null,null,b" {
		t.Errorf("made %s", got)
	}
}

func TestSortEmitsByTimeThenArrival(t *testing.T) {
	at := func(time int64, value int) optest.Record {
		return optest.Record{Time: time, Slots: []pipeline.Value{val("k"), val(value)}}
	}
	result := run(t, optest.Config{Ports: 2, OutOfOrdernessMs: 10, New: func() pipeline.Operator { return ops.NewSort(ops.SortConfig{}) }}, []optest.Record{
		at(20, 0), at(12, 1), at(12, 2), at(10, 3), at(9, 4), at(23, 5), at(13, 6), at(12, 7), at(pipeline.NoTime, 8),
	})
	// The watermark is 10 behind value 0: 9 is late, 10 is not. It is 13 behind value 5: 10 and 12 go, 12 is late then.
	var order []string
	for _, r := range result.Ports[0] {
		order = append(order, fmt.Sprintf("%d:%s@%d/%d", uint64(r.Pos), showValue(r.Slots[1]), r.Time, r.Deadline))
	}
	want := "6:3@10/11 6:1@12/13 6:2@12/13 10:6@13/14 10:0@20/21 10:5@23/24"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("emitted %s, want %s", got, want)
	}
	if got := show(result.Ports[ops.LatePort], 1); got != "5:4 8:7" || result.Counters.Late != 2 {
		t.Errorf("late %s, counted %d", got, result.Counters.Late)
	}
	if got := showDead(result.Dead); got != "9:no_time" {
		t.Errorf("dead letters %s", got)
	}
}

func TestSortRefusesRowsBeyondMaxKeys(t *testing.T) {
	result := run(t, optest.Config{Ports: 2, OutOfOrdernessMs: 100, New: func() pipeline.Operator { return ops.NewSort(ops.SortConfig{MaxKeys: 2}) }},
		[]optest.Record{rec(3, "a", 1), rec(2, "a", 2), rec(1, "a", 3)})
	if got := show(result.Ports[0], 1); got != "4:2 4:1" {
		t.Errorf("emitted %s", got)
	}
	if got := showDead(result.Dead); got != "3:max_keys" {
		t.Errorf("dead letters %s", got)
	}
}
