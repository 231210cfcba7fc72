package window

import (
	"encoding/binary"
	"slices"

	"github.com/weirstream/weir/pipeline"
)

// firePane emits a row for each key of a window, in the order of key bytes. stays tells that late rows may still come:
// then the firing is counted in the entries.
func (t *Tumbling) firePane(p *pane, stays bool, out *pipeline.Out) {
	p.sort()
	if t.fault.unsorted {
		slices.Reverse(p.keys)
	}
	p.each(func(key []byte) {
		t.key = append(appendStart(t.key[:0], p.start), key...)
		out.SetTimer(p.end, p.start, t.key[startBytes:])
		if _, ok := t.entries.Get(t.key); !ok { // gone by its TTL; Aged counts it
			return
		}
		entry, err := t.entry(stays)
		if err != nil {
			panic("BUG: an entry that is there cannot be one too many: " + err.Error())
		}
		t.fire(p.start, t.key, entry, out)
		if stays {
			countFiring(entry)
		}
	})
}

// entry gives the entry of t.key, which exists: to write when the window stays.
func (t *Tumbling) entry(write bool) (entry []byte, err error) {
	if write {
		entry, _, err = t.entries.Upsert(t.key, t.acc.size)
		return entry, err
	}
	entry, _ = t.entries.Get(t.key)
	return entry, nil
}

// fire emits the row of one window and key. A row with a result that does not fit becomes a dead letter.
func (t *Tumbling) fire(start int64, key, entry []byte, out *pipeline.Out) {
	end := start + t.c.SizeMs
	slots := out.Slots(t.c.Width)
	set := func(slot int, v pipeline.Value) {
		if slot >= 0 {
			slots[slot] = v
		}
	}
	set(t.c.StartSlot, pipeline.IntValue(start))
	set(t.c.EndSlot, pipeline.IntValue(end))
	set(t.c.RevisionSlot, pipeline.IntValue(int64(binary.LittleEndian.Uint32(entry))))
	rest := key[startBytes:]
	for _, slot := range t.c.KeyOut {
		v, tail, err := out.KeyValue(rest)
		if err != nil {
			panic("BUG: a window has a key that was never written: " + err.Error())
		}
		set(slot, v)
		rest = tail
	}
	failed := ""
	for i, a := range t.c.Aggs {
		v := t.acc.result(i, cell{&t.acc.state, key, entry}, out)
		if v.Kind == pipeline.Error && failed == "" {
			failed = a.Kind.String() + ": " + v.Str
		}
		set(a.Slot, v)
	}
	if failed != "" {
		out.Refuse(reasonOverflow, failed, &pipeline.Row{At: out.At, Time: end - 1, Slots: slots})
		return
	}
	out.Emit(0, end-1, slots)
}

// cell is what is kept under t.key.
func (t *Tumbling) cell(entry []byte) cell { return cell{&t.acc.state, t.key, entry} }

func countFiring(entry []byte) {
	binary.LittleEndian.PutUint32(entry, binary.LittleEndian.Uint32(entry)+1)
}

// forget deletes the entries of a window.
func (t *Tumbling) forget(p *pane) {
	p.each(func(key []byte) {
		t.key = append(appendStart(t.key[:0], p.start), key...)
		if t.entries.Delete(t.key) {
			t.open--
		}
		t.acc.forget(t.cell(nil))
	})
	p.drop()
}

// Aged implements pipeline.Aging: it counts the entries that went by their TTL.
func (t *Tumbling) Aged(out *pipeline.Out) {
	if gone := t.open - t.entries.Len(); gone > 0 {
		t.open -= gone
		out.Counters.Dropped += uint64(gone)
		t.skip()
	}
}

// skip forgets the next windows to fire as long as their TTL has left nothing in them, as a restore does.
func (t *Tumbling) skip() {
	if t.c.TTL == 0 || t.fault.kept {
		return
	}
	t.panes.skip(func(start int64, key []byte) bool {
		t.key = append(appendStart(t.key[:0], start), key...)
		_, ok := t.entries.Get(t.key)
		return ok
	})
}
