package ops

import (
	"encoding/binary"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// farDeadlines is the index of timers of an operator whose keys do not fit the memory: (deadline, key) in order, and the deadline of each key.
// The earliest is known at any time. What stands before it is never looked at: it is full of what was deleted.
type farDeadlines struct {
	order, byKey *state.Index
	first        []byte // deadline and key; empty: none waits
	entry        []byte
}

// beside puts the timers where the table is.
func (d *deadlines) beside(t *state.Table) {
	if !state.LargeBuilt {
		return
	}
	if order := t.NewIndex(); order != nil {
		d.far = &farDeadlines{order: order, byKey: t.NewIndex()}
	}
}

func appendDeadline(dst []byte, at int64, key []byte) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(at)^1<<63), key...)
}

func (f *farDeadlines) set(key []byte, at int64) {
	f.entry = appendDeadline(f.entry[:0], at, key)
	f.order.Set(f.entry, nil)
	f.byKey.Set(key, f.entry[:8])
	if len(f.first) == 0 || string(f.entry) < string(f.first) {
		f.first = append(f.first[:0], f.entry...)
	}
}

func (f *farDeadlines) cancel(key []byte) {
	at, ok := f.byKey.Get(f.entry[:0], key)
	if f.entry = at; !ok {
		return
	}
	f.entry = append(f.entry, key...)
	f.remove(f.entry)
}

// remove takes a timer out; when it was the earliest, the next one is looked for behind it.
func (f *farDeadlines) remove(entry []byte) {
	f.order.Delete(entry)
	f.byKey.Delete(entry[8:])
	if string(entry) != string(f.first) {
		return
	}
	from := append([]byte(nil), entry...)
	f.first = f.first[:0]
	f.order.Walk(nil, from, func(next []byte) bool {
		f.first = append(f.first, next...)
		return false
	})
}

func (f *farDeadlines) earliest() int64 {
	if len(f.first) == 0 {
		return pipeline.NoDeadline
	}
	return int64(binary.BigEndian.Uint64(f.first) ^ 1<<63)
}

func (f *farDeadlines) take() (key string, at int64) {
	at = f.earliest()
	key = string(f.first[8:])
	f.remove(append([]byte(nil), f.first...))
	return key, at
}
