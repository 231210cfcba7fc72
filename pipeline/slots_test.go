package pipeline_test

import (
	"testing"

	"github.com/weirstream/weir/pipeline"
)

func seedSlots() []byte {
	return pipeline.AppendSlots(nil, []pipeline.Value{
		{}, pipeline.BoolValue(true), pipeline.IntValue(-1), pipeline.UintValue(1 << 63), pipeline.FloatValue(0.5), pipeline.StringValue("text"),
		pipeline.BytesValue("\x00"), pipeline.JSONValue("[1]"),
	})
}

// FuzzParseSlots: what is read is what was written; nothing else is read, and no length is believed.
func FuzzParseSlots(f *testing.F) {
	f.Add(seedSlots())
	f.Add([]byte{0xFF, 0xFF, 0xFF, 0xFF, 0x0F})
	f.Fuzz(func(t *testing.T, b []byte) {
		slots, err := pipeline.NewOut("", 1).ParseSlots(b)
		if err != nil {
			return
		}
		again, err := pipeline.NewOut("", 1).ParseSlots(pipeline.AppendSlots(nil, slots))
		if err != nil || len(again) != len(slots) {
			t.Fatalf("%v came back as %v, %v", slots, again, err)
		}
		for i := range slots {
			if again[i] != slots[i] {
				t.Fatalf("slot %d: %v came back as %v", i, slots[i], again[i])
			}
		}
	})
}

func TestSlotsCutAtAnyByteAreRefused(t *testing.T) {
	whole := seedSlots()
	for n := range whole {
		if _, err := pipeline.NewOut("", 1).ParseSlots(whole[:n]); err == nil {
			t.Errorf("read from %d of %d bytes", n, len(whole))
		}
	}
}
