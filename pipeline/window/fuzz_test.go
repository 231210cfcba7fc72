package window_test

import (
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/pipeline/window"
)

// held gives an operator's tables back, by name.
type held map[string]*state.Table

func (h held) Table(spec state.Spec) (*state.Table, error) {
	h[spec.Name] = state.New(spec)
	return h[spec.Name], nil
}

// FuzzRestored: whatever lies in a window's own table, Restored says that it is not readable or the window works with it.
func FuzzRestored(f *testing.F) {
	early := hopping(40*time.Millisecond, 10*time.Millisecond, 5*time.Millisecond)
	early.EarlyMs = 5
	top := hopping(40*time.Millisecond, 10*time.Millisecond, 0)
	top.Aggs, top.Top = nil, &window.Top{N: 2, Order: optest.Expr("value"), Columns: []int{0, 1}, Out: []int{outSum, outAvg}, RankSlot: outCount}
	numbers := func(c window.Config) window.Config { // text of picks lies elsewhere: a picked text without it is an empty one
		c.Aggs = c.Aggs[:1]
		return c
	}
	early.Config = numbers(early.Config)
	gaps, counts, runs := session(10*time.Millisecond, 0, false), counting(4, 2), states("value > 1", "")
	gaps.Config, counts.Config, runs.Config = numbers(gaps.Config), numbers(counts.Config), numbers(runs.Config)
	plain := tumbling(10*time.Millisecond, 0)
	plain.Aggs = plain.Aggs[:1]
	kinds := []struct {
		table string
		op    func() pipeline.Operator
	}{
		{"pane", newHopping(early)}, {"rows", newHopping(top)}, {"session", newSession(gaps)}, {"count", newCount(counts)}, {"run", newState(runs)},
		{"clock", processing(newHopping(early))}, {"fired", newHopping(early)}, {"acc", newTumbling(plain)},
	}
	key, _ := pipeline.AppendKey([]byte{0x80, 0, 0, 0, 0, 0, 0, 10}, pipeline.StringValue("a"))
	for i := range kinds {
		f.Add(i, key, make([]byte, 12))
		f.Add(i, key, make([]byte, 20))
		f.Add(i, key, make([]byte, 40))
	}
	f.Fuzz(func(t *testing.T, kind int, key, val []byte) {
		if kind < 0 || kind >= len(kinds) {
			return
		}
		k := kinds[kind]
		h, op := held{}, k.op()
		if err := op.Open(h); err != nil {
			t.Fatal(err)
		}
		if err := h[k.table].Load(key, nil, val); err != nil {
			return
		}
		if err := op.Restored(); err != nil || len(key) < 8 || !isKey(key[8:]) {
			return // the bytes of a row's key are not the window's to check
		}
		out := pipeline.NewOut("", 2)
		row := rec(5, "a", 2)
		out.At = pipeline.At{Pos: 1, Phase: pipeline.During}
		op.Process(0, &pipeline.Row{At: out.At, Time: row.Time, Slots: row.Slots}, out)
		out.At.Phase = pipeline.After
		op.Watermark(30, out)
	})
}

func isKey(b []byte) bool {
	_, rest, err := pipeline.NewOut("", 1).KeyValue(b)
	return err == nil && len(rest) == 0
}
