package ops

import (
	"bytes"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

func seedSlots() []byte {
	return appendSlots(nil, []pipeline.Value{
		{}, pipeline.BoolValue(true), pipeline.IntValue(-1), pipeline.UintValue(1 << 63), pipeline.FloatValue(0.5), pipeline.StringValue("text"),
		pipeline.BytesValue("\x00"), pipeline.JSONValue("[1]"),
	})
}

// FuzzParseSlots: what is read is what was written; nothing else is read, and no length is believed.
func FuzzParseSlots(f *testing.F) {
	f.Add(seedSlots())
	f.Add([]byte{0xFF, 0xFF, 0xFF, 0xFF, 0x0F})
	f.Fuzz(func(t *testing.T, b []byte) {
		slots, err := parseSlots(b, pipeline.NewOut("", 1))
		if err != nil {
			return
		}
		again, err := parseSlots(appendSlots(nil, slots), pipeline.NewOut("", 1))
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
		if _, err := parseSlots(whole[:n], pipeline.NewOut("", 1)); err == nil {
			t.Errorf("read from %d of %d bytes", n, len(whole))
		}
	}
}

func FuzzParseAlarm(f *testing.F) {
	f.Add(appendAlarm(nil, alarmState{phase: alarmRaised}))
	f.Add(appendAlarm(nil, alarmState{phase: alarmPending, deadline: 5, time: -5, value: pipeline.StringValue("x")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := parseAlarm(b)
		if err == nil && !bytes.Equal(appendAlarm(nil, s), b) {
			t.Fatalf("%x is not written as read: %+v", b, s)
		}
	})
}

func FuzzParseHeld(f *testing.F) {
	f.Add(held{time: -1, pos: 2, index: 3}.appendKey(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := parseHeld(b)
		if err == nil && !bytes.Equal(h.appendKey(nil), b) {
			t.Fatalf("%x is not written as read: %+v", b, h)
		}
	})
}
