package join_test

import (
	"fmt"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/join"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/state"
)

// newTables gives an operator its tables.
type newTables struct{}

func (newTables) Table(spec state.Spec) (*state.Table, error) { return state.New(spec), nil }

// BenchmarkInterval: rows of both inputs in turn, each with one partner; the watermark follows. held rows wait per key.
func BenchmarkInterval(b *testing.B) {
	for _, c := range []struct{ keys, within int64 }{{100, 10}, {10_000, 10}, {1, 1000}} {
		b.Run(fmt.Sprintf("keys=%d/within=%d", c.keys, c.within), func(b *testing.B) {
			op := join.NewInterval(join.IntervalConfig{Sides: sides(), Output: output(false), Type: join.LeftOuter, BeforeMs: 0, AfterMs: 0})
			if c.keys == 1 { // many rows held, few near
				op = join.NewInterval(join.IntervalConfig{Sides: sides(), Output: output(false), Type: join.LeftOuter, BeforeMs: 0, AfterMs: c.within})
			}
			if err := op.Open(newTables{}); err != nil {
				b.Fatal(err)
			}
			if err := op.Restored(); err != nil {
				b.Fatal(err)
			}
			out := pipeline.NewOut("bench", 2)
			out.Reuse = true
			row := pipeline.Row{Slots: make([]pipeline.Value, optest.Width)}
			b.ReportAllocs()
			b.ResetTimer()
			for i := range int64(b.N) {
				row.At = pipeline.At{Pos: pipeline.Position(i + 1), Phase: pipeline.During}
				row.Time = i / (2 * c.keys) * 20
				row.Slots[optest.SlotKey] = pipeline.IntValue(i / 2 % c.keys)
				row.Slots[optest.SlotSeq] = pipeline.IntValue(i)
				out.At = row.At
				op.Process(int(i%2), &row, out)
				if i%512 == 511 {
					out.At.Phase = pipeline.After
					op.Watermark(row.Time-c.within, out)
					out.Reset()
				}
			}
		})
	}
}
