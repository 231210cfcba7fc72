package window

import (
	"errors"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/optest"
)

// TestExpiredEntryLeavesNothingBehind: a window and key that went by its TTL begins anew, with nothing of what the side held.
func TestExpiredEntryLeavesNothingBehind(t *testing.T) {
	kinds := []Agg{{Kind: CountRows}, {Kind: Median}, {Kind: Distinct}, {Kind: Collect, Param: 9}, {Kind: Max}}
	c := TumblingConfig{Key: []int{0}, SizeMs: 1000, StartSlot: -1, EndSlot: -1, RevisionSlot: -1, KeyOut: []int{-1}, TTL: 10}
	for _, a := range kinds {
		a.Slot = c.Width
		if a.Kind != CountRows {
			a.Arg = optest.Expr("value")
		}
		c.Aggs = append(c.Aggs, a)
		c.Width++
	}
	at := func(elapsed, v int64) optest.Record {
		return optest.Record{Elapsed: elapsed, Time: 1, Slots: []pipeline.Value{pipeline.StringValue("k"), pipeline.IntValue(v)}}
	}
	result, err := optest.Run(optest.Config{New: func() pipeline.Operator { return NewTumbling(c) }, Ports: 2}, []optest.Record{at(1, 70), at(2, 80), at(20, 5)})
	if err != nil {
		t.Fatal(err)
	}
	rows := result.Ports[0]
	if len(rows) != 1 {
		t.Fatalf("%d rows", len(rows))
	}
	want := []pipeline.Value{pipeline.IntValue(1), pipeline.FloatValue(5), pipeline.IntValue(1), pipeline.JSONValue("[5]"), pipeline.IntValue(5)}
	for i, w := range want {
		if rows[0].Slots[i] != w {
			t.Errorf("%s is %v, want %v", kinds[i].Kind, rows[0].Slots[i], w)
		}
	}
}

// TestForgottenCellLeavesNothing in any table.
func TestForgottenCellLeavesNothing(t *testing.T) {
	s, tables := openAccumulators(t, Agg{Kind: Max}, Agg{Kind: Median}, Agg{Kind: Distinct}, Agg{Kind: Collect, Param: 3}, Agg{Kind: Collect, Param: 5})
	for _, key := range []string{"a", "b"} {
		c := s.newCell(&s.state, key)
		s.addAll(c, texts(2000))
		s.addAll(c, samples(1, 2, 3))
	}
	for _, key := range []string{"a", "b"} {
		s.forget(cell{&s.state, []byte(key), nil})
	}
	for _, table := range tables.all {
		if table.Len() != 0 {
			t.Errorf("table %s holds %d entries", table.Spec().Name, table.Len())
		}
	}
}

// TestDamagedSideFailsTheRestore, not a firing.
func TestDamagedSideFailsTheRestore(t *testing.T) {
	for name, damage := range map[string]func(*side) error{
		"no damage":       func(*side) error { return nil },
		"cut sketch":      func(n *side) error { return n.sketches.PutSub([]byte("k"), []byte{0}, []byte{46, 1, 2}) },
		"unknown cut":     func(n *side) error { return n.sketches.PutSub([]byte("k"), []byte{0}, []byte{13}) },
		"cut registers":   func(n *side) error { return n.sketches.PutSub([]byte("k"), []byte{1}, make([]byte, 100)) },
		"wrong aggregate": func(n *side) error { return n.sketches.PutSub([]byte("k"), []byte{9}, []byte{0}) },
		"cut element":     func(n *side) error { return n.lists.Append([]byte("k"), []byte{2, 0, 0}) },
		"foreign element": func(n *side) error { return n.lists.Append([]byte("k"), make([]byte, 18)) },
	} {
		s, _ := openAccumulators(t, Agg{Kind: Median}, Agg{Kind: Distinct}, Agg{Kind: Collect, Param: 3})
		s.addAll(s.newCell(&s.state, "good"), append(texts(1100), samples(1, 2, 3)...))
		s.addAll(s.newCell(&s.state, "numbers"), samples(1, 2, 3))
		if err := damage(&s.state); err != nil {
			t.Fatal(err)
		}
		if err := s.restored(); errors.Is(err, ErrState) != (name != "no damage") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
