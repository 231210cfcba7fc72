package pipeline_test

import (
	"testing"

	"github.com/weirstream/weir/pipeline"
)

// TestSlotsAreZeroHoweverTheyWereUsed: rows of many widths, batch after batch, over two steps that share memory.
func TestSlotsAreZeroHoweverTheyWereUsed(t *testing.T) {
	slabs := &pipeline.Slabs{}
	outs := []*pipeline.Out{pipeline.NewOut("a", 1), pipeline.NewOut("b", 1)}
	for _, o := range outs {
		o.Reuse, o.Slabs = true, slabs
	}
	for batch := range 200 {
		o := outs[batch%2]
		o.Reset()
		for row := range batch * 7 % 900 {
			width := 1 + (batch+row)%11
			if row%400 == 399 {
				width = 3000 // wider than a slab
			}
			for i, v := range o.Slots(width) {
				if v != (pipeline.Value{}) {
					t.Fatalf("batch %d, row %d, slot %d holds %v", batch, row, i, v)
				}
			}
			o.Emit(0, 0, filled(o, width))
		}
		if batch%3 > 0 {
			o.Release()
		}
		if batch%5 == 0 {
			o.Shrink()
		}
	}
}

func filled(o *pipeline.Out, width int) []pipeline.Value {
	slots := o.Slots(width)
	for i := range slots {
		slots[i] = pipeline.StringValue("used")
	}
	return slots
}
