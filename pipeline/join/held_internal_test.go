package join

import (
	"bytes"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

// FuzzParseHeld: what is read is what was written; nothing else is read.
func FuzzParseHeld(f *testing.F) {
	h := held{time: -5, pos: 7, index: 2, matched: true, came: 9}
	f.Add(appendSub(nil, Right, h), appendHead(nil, h, true))
	f.Add(appendSub(nil, Left, h), appendHead(nil, h, false))
	f.Fuzz(func(t *testing.T, sub, val []byte) {
		side, h, slots, err := parseHeld(sub, val)
		if err != nil {
			return
		}
		head := appendHead(nil, h, val[0]&flagCame != 0)
		if !bytes.Equal(appendSub(nil, side, h), sub) || !bytes.Equal(append(head, slots...), val) {
			t.Fatalf("%x, %x is not written as read: %d, %+v", sub, val, side, h)
		}
	})
}

func TestHeldCutAtAnyByteIsRefused(t *testing.T) {
	h := held{time: 1, pos: 2, came: 3}
	sub := appendSub(nil, Left, h)
	row := pipeline.AppendSlots(nil, []pipeline.Value{pipeline.StringValue("text"), {}})
	whole := append(appendHead(nil, h, true), row...)
	for n := range sub {
		if _, _, _, err := parseHeld(sub[:n], whole); err == nil {
			t.Errorf("read under %d of %d bytes", n, len(sub))
		}
	}
	for n := range whole {
		_, _, slots, err := parseHeld(sub, whole[:n])
		if err == nil {
			_, err = pipeline.NewOut("", 0).ParseSlots(slots)
		}
		if err == nil {
			t.Errorf("read from %d of %d bytes", n, len(whole))
		}
	}
}
