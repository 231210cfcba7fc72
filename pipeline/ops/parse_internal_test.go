package ops

import (
	"bytes"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

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
