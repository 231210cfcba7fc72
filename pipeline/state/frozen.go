package state

import (
	"encoding/binary"
	"runtime"
	"slices"
)

// Bounds of the work done under one hold of the lock by another goroutine than the owner: some 20 us.
const (
	holdEntries = 64
	holdBytes   = 32 << 10
)

// Frozen is the part of a table that changed before a barrier, as it was at the barrier. Every Frozen ends with Commit
// or Abort. All its methods may be called from any one goroutine that does not hold the table's lock.
type Frozen struct {
	t       *Table
	number  uint32
	lists   []*dirtyList
	arena   slab // old versions of what changed since
	count   int
	started bool
	ended   bool // committed or aborted
	aborted bool
	partial int // bytes of a large record that buf holds already
	missing int // bytes of it still to come
	buf     []byte
	spans   []span
	large   *largeFrozen // of a large table; then only number, count, started, ended and aborted are in use besides
}

// span is one entry in Frozen.buf: key, subkey and value one after the other.
type span struct {
	key, sub, val int
	deleted       bool
}

// Freeze takes everything changed since the last Freeze that did not abort. The owner calls it at the barrier, under
// Lock. It copies no value and costs the same however much has changed.
func (t *Table) Freeze() *Frozen {
	if LargeBuilt && t.large != nil {
		return t.large.freeze()
	}
	if LargeBuilt && t.far != nil {
		return t.far.chunks.Freeze()
	}
	t.seal()
	t.frozenLast++
	f := &Frozen{t: t, number: t.frozenLast}
	for _, l := range t.lists {
		if l.gen == nil {
			l.gen, l.done = f, 0
			f.lists = append(f.lists, l)
			f.count += l.valid
		}
	}
	t.frozen = append(t.frozen, f)
	t.openList()
	return f
}

// Len is the number of entries changed, deletes included; of a large table at most that, and 0 only when nothing changed.
func (f *Frozen) Len() int { return f.count }

// keep copies a record that is about to change.
func (f *Frozen) keep(rec []byte) uint32 {
	n := f.t.layout.sizeOf(rec)
	ref := f.arena.alloc(capacity(n))
	copy(f.arena.at(ref), rec[:n])
	return ref
}

// Encode calls yield for each changed entry, once; deleted entries have val nil and deleted true. val is the encoded
// entry (FORMAT.md): what Load takes. It may run in another goroutine than the owner's, takes the table's lock for some
// 20 us at a time, and calls yield outside of the lock; the slices are valid during the call only. It can run once:
// what it has passed is no longer kept.
func (f *Frozen) Encode(yield func(key, sub, val []byte, deleted bool) error) error {
	f.t.mu.Lock()
	again, ended := f.started, f.ended
	f.started = true
	if LargeBuilt && f.large != nil && !again && !ended {
		f.large.busy = true
	}
	f.t.mu.Unlock()
	switch {
	case again:
		return ErrEncoded
	case LargeBuilt && f.large != nil && ended:
		return ErrAborted
	case LargeBuilt && f.large != nil:
		return f.encodeLarge(yield)
	}
	for {
		more, err := f.collect()
		if err != nil {
			return err
		}
		at := 0
		for _, s := range f.spans {
			b := f.buf[at : at+s.key+s.sub+s.val]
			at += len(b)
			val := b[s.key+s.sub:]
			if s.deleted {
				val = nil
			}
			if err := yield(b[:s.key:s.key], b[s.key:s.key+s.sub:s.key+s.sub], val, s.deleted); err != nil {
				return err
			}
		}
		if !more {
			f.buf, f.spans = nil, nil
			return nil
		}
		runtime.Gosched()
	}
}

// collect copies the next entries to buf under one hold of the lock.
func (f *Frozen) collect() (more bool, err error) {
	f.buf, f.spans = f.buf[:0], f.spans[:0]
	for {
		more, whole, err := f.collectHold()
		if err != nil || whole {
			return more, err
		}
		f.buf = slices.Grow(f.buf, f.missing) // not under the lock
		runtime.Gosched()
	}
}

// collectHold is one hold. A record larger than a hold is copied in pieces: whole is false until it is complete. It may
// change between two pieces; then the next comes from the old version, which touch has kept, since done is before it.
func (f *Frozen) collectHold() (more, whole bool, err error) {
	t := f.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.ended {
		return false, true, ErrAborted
	}
	budget := holdEntries
	for _, l := range f.lists {
		for l.done < l.n {
			if budget--; budget < 0 {
				return true, true, nil
			}
			rec := f.record(l)
			if rec == nil {
				l.done++
				continue
			}
			s, body := f.body(rec)
			rest := body[f.partial:]
			if len(f.spans) > 0 && len(f.buf)+len(rest) > holdBytes {
				return true, true, nil
			}
			if len(rest) > holdBytes {
				f.buf = append(f.buf, rest[:holdBytes]...)
				f.partial += holdBytes
				f.missing = len(rest) - holdBytes + stampBytes
				return true, false, nil
			}
			f.buf = append(f.buf, rest...)
			if t.layout.ttl && !s.deleted {
				f.buf = binary.BigEndian.AppendUint64(f.buf, uint64(t.layout.stamp(rec)))
				s.val += stampBytes
			}
			f.partial = 0
			f.spans = append(f.spans, s)
			l.done++
		}
	}
	return false, true, nil
}

// record gives the next item's record as it was at the barrier; nil when a later item of the checkpoint names the entry.
func (f *Frozen) record(l *dirtyList) []byte {
	it := l.item(l.done)
	switch {
	case it.kept == f.number:
		return f.arena.at(it.ref)
	case it.kept != 0: // for a checkpoint that was aborted
		return nil
	}
	if e := f.t.index.entry(it.ref); e.list == l.id && int(e.pos) == l.done {
		return f.t.slab.at(e.ref)
	}
	return nil
}

func (f *Frozen) body(rec []byte) (span, []byte) {
	l := &f.t.layout
	s := span{key: int(u32(rec, klenAt)), sub: l.slen(rec), deleted: dead(rec)}
	if !s.deleted {
		s.val = int(u32(rec, 0))
	}
	return s, rec[l.head : l.head+s.key+s.sub+s.val]
}

// Commit says that the checkpoint is durable: old versions are freed, and the tombstones it carried. It does nothing
// after an Abort, also not after the Abort of an older checkpoint.
func (f *Frozen) Commit() {
	if LargeBuilt && f.large != nil {
		f.commitLarge()
		return
	}
	f.t.mu.Lock()
	if f.ended {
		f.t.mu.Unlock()
		return
	}
	f.t.retire(f)
	f.t.mu.Unlock()
	f.reap()
}

// retire ends f without giving its changes back.
func (t *Table) retire(f *Frozen) {
	f.ended = true
	f.arena = slab{}
	for _, l := range f.lists {
		t.forgetList(l)
	}
	t.frozen = slices.DeleteFunc(t.frozen, func(x *Frozen) bool { return x == f })
}

// reap frees the tombstones that nothing changed since, in short holds.
func (f *Frozen) reap() {
	for _, l := range f.lists {
		if l.dead == 0 {
			continue
		}
		for at := 0; at < l.n; at += holdEntries {
			f.t.mu.Lock()
			for i := at; i < min(at+holdEntries, l.n); i++ {
				if it := l.item(i); it.kept == 0 {
					f.t.bury(it.ref, l.id, uint32(i))
				}
			}
			f.t.mu.Unlock()
			runtime.Gosched()
		}
	}
	f.lists = nil
}

// bury frees the entry if it is still the tombstone that the given item names.
func (t *Table) bury(id, list, pos uint32) {
	e := t.index.entry(id)
	if e.list != list || e.pos != pos || e.ref == 0 {
		return
	}
	rec := t.slab.at(e.ref)
	if dead(rec) {
		t.discard(e.ref, capacity(t.layout.sizeOf(rec)))
		t.index.remove(id)
	}
}

// Abort gives the changes back, tombstones too, so that the next Freeze contains them. Checkpoints frozen later are
// aborted with it, since their deltas build on this one: Encode gives ErrAborted, Commit does nothing (RULES 15). The
// changes are back when the first, short hold of the lock ends; what follows only tidies up.
func (f *Frozen) Abort() {
	if LargeBuilt && f.large != nil {
		f.abortLarge()
		return
	}
	t := f.t
	t.mu.Lock()
	if f.ended {
		t.mu.Unlock()
		return
	}
	if t.forget {
		f.aborted = true
		t.retire(f)
		t.mu.Unlock()
		f.reap()
		return
	}
	at := slices.Index(t.frozen, f)
	for _, g := range t.frozen[at:] {
		g.ended, g.aborted = true, true
		g.arena = slab{}
		for _, l := range g.lists {
			l.gen, l.done = nil, 0
		}
		g.lists = nil
	}
	t.frozen = slices.Delete(t.frozen, at, len(t.frozen))
	t.mu.Unlock()
	for more := true; more; {
		t.mu.Lock()
		more = t.mergeStep(holdEntries)
		t.mu.Unlock()
		runtime.Gosched()
	}
}
