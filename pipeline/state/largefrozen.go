package state

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"slices"
)

// largeFrozen is what a Frozen of a large table has: the Backing at the barrier, and the generations whose marks say what changed.
type largeFrozen struct {
	l    *large
	gens []uint32
	snap Snapshot // nil: nothing changed, or it was closed
	busy bool     // Encode is under way and closes snap
}

// freeze is Freeze. It writes what waits, changedMax entries at most.
func (l *large) freeze() *Frozen {
	l.settle()
	if l.fault.lateFlush {
		defer l.flush()
	} else {
		l.flush()
	}
	t := l.t
	t.frozenLast++
	f := &Frozen{t: t, number: t.frozenLast, count: l.dirty, large: &largeFrozen{l: l}}
	if l.dirty > 0 {
		f.large.gens = append(l.given, l.gen)
		f.large.snap = l.db.Snapshot()
		l.given, l.dirty = nil, 0
		l.held = l.gen
		l.gen++
	}
	t.frozen = append(t.frozen, f)
	return f
}

// encodeLarge is Encode; started and busy were set by the caller, under the lock.
func (f *Frozen) encodeLarge(yield func(key, sub, val []byte, deleted bool) error) (err error) {
	c := f.large
	if c.snap == nil {
		return nil
	}
	m, err := c.open()
	if err == nil {
		err = f.merge(m, yield)
	} else {
		err = f.wrap(err)
	}
	for _, it := range m.all() {
		if closed := it.Close(); err == nil {
			err = f.wrap(closed)
		}
	}
	f.t.mu.Lock()
	c.busy = false
	snap := c.snap
	c.snap = nil
	f.t.mu.Unlock()
	if closed := snap.Close(); err == nil {
		err = f.wrap(closed)
	}
	return err
}

func (f *Frozen) wrap(err error) error {
	if err == nil {
		return nil
	}
	return &BackingError{Table: f.t.spec.Name, Err: err}
}

// markMerge walks the marks of several generations side by side, and the entries that they name.
type markMerge struct {
	marks   []Iter // placed
	entries Iter
	prefix  int // length of what stands before the place in a mark
}

func (m *markMerge) all() []Iter {
	if m.entries == nil {
		return m.marks
	}
	return append(m.marks, m.entries)
}

// open gives an iterator for each generation that has marks.
func (c *largeFrozen) open() (*markMerge, error) {
	l := c.l
	m := &markMerge{prefix: len(l.marks) + 4}
	for _, gen := range c.gens {
		lower := binary.BigEndian.AppendUint32(slices.Clone(l.marks), gen)
		it, err := c.snap.Iter(lower, successor(lower))
		if err != nil {
			return m, err
		}
		m.marks = append(m.marks, it)
		if !it.First() {
			m.marks = m.marks[:len(m.marks)-1]
			if err := it.Close(); err != nil {
				return m, err
			}
		}
	}
	var err error
	m.entries, err = c.snap.Iter(l.entries, after(l.entries))
	return m, err
}

// next gives the lowest place and moves behind it; nil at the end.
func (m *markMerge) next(dst []byte) ([]byte, error) {
	if len(m.marks) == 0 {
		return nil, nil
	}
	low := m.marks[0].Key()[m.prefix:]
	for _, it := range m.marks[1:] {
		if k := it.Key()[m.prefix:]; bytes.Compare(k, low) < 0 {
			low = k
		}
	}
	dst = append(dst[:0], low...)
	var err error
	m.marks = slices.DeleteFunc(m.marks, func(it Iter) bool {
		if !bytes.Equal(it.Key()[m.prefix:], dst) || it.Next() {
			return false
		}
		if closed := it.Close(); err == nil {
			err = closed
		}
		return true
	})
	return dst, err
}

// merge yields the entries that the marks name, in the order of keys.
func (f *Frozen) merge(m *markMerge, yield func(key, sub, val []byte, deleted bool) error) error {
	l := f.large.l
	place, scratch, seek, val := make([]byte, 0, 64), []byte(nil), []byte(nil), []byte(nil)
	for n := 0; ; n++ {
		if n%holdEntries == 0 {
			f.t.mu.Lock()
			ended := f.ended
			f.t.mu.Unlock()
			if ended {
				return ErrAborted
			}
			runtime.Gosched()
		}
		p, err := m.next(place)
		if err != nil || p == nil {
			return f.wrap(err)
		}
		place = p
		key, sub := l.split(scratch[:0], place)
		if l.t.spec.Kind == Map {
			scratch = key
		}
		seek = append(append(seek[:0], l.entries...), place...)
		if !m.entries.SeekGE(seek) || !bytes.Equal(m.entries.Key(), seek) {
			if err := yield(key, sub, nil, true); err != nil {
				return err
			}
			continue
		}
		rec, err := m.entries.Value()
		if err != nil {
			return f.wrap(err)
		}
		val = append(val[:0], rec[l.head()-1:]...)
		if l.t.layout.ttl {
			val = binary.BigEndian.AppendUint64(val, binary.LittleEndian.Uint64(rec[largeStampAt-1:]))
		}
		if err := yield(key, sub, val, false); err != nil {
			return err
		}
	}
}

// release closes the snapshot unless Encode still reads it. The lock is held.
func (c *largeFrozen) release() {
	if c.snap != nil && !c.busy {
		_ = c.snap.Close() // fails only where it was closed before
		c.snap = nil
	}
}

// commitLarge is Commit: the marks have done their work.
func (f *Frozen) commitLarge() {
	t := f.t
	t.mu.Lock()
	ended := f.ended
	f.ended = true
	t.frozen = slices.DeleteFunc(t.frozen, func(x *Frozen) bool { return x == f })
	f.large.release()
	t.mu.Unlock()
	if !ended {
		f.large.dropMarks()
	}
}

// dropMarks deletes the marks of the generations. A failure is found by the next call on the table.
func (c *largeFrozen) dropMarks() {
	b := c.l.db.Batch()
	defer func() { _ = b.Close() }()
	for _, gen := range c.gens {
		lower := binary.BigEndian.AppendUint32(slices.Clone(c.l.marks), gen)
		if b.DeleteRange(lower, successor(lower)) != nil {
			return
		}
	}
	_ = b.Apply()
}

// abortLarge is Abort: the generations are open again, those of younger checkpoints too.
func (f *Frozen) abortLarge() {
	t, l := f.t, f.large.l
	t.mu.Lock()
	if f.ended {
		t.mu.Unlock()
		return
	}
	at := slices.Index(t.frozen, f)
	ended := slices.Clone(t.frozen[at:])
	t.frozen = slices.Delete(t.frozen, at, len(t.frozen))
	for _, g := range ended {
		g.ended, g.aborted = true, true
		g.large.release()
		if !t.forget {
			l.given = append(l.given, g.large.gens...)
			l.dirty += g.count
			if len(g.large.gens) > 0 {
				l.held = min(l.held, g.large.gens[0]-1)
			}
		}
	}
	slices.Sort(l.given)
	t.mu.Unlock()
	for more := true; more; {
		t.mu.Lock()
		more = l.mergeMarks()
		t.mu.Unlock()
		runtime.Gosched()
	}
}

// mergeMarks moves some marks of the youngest generation that was given back to the oldest, so that a long row of aborts does not
// pile them up, and tells whether any are left. The lock is held.
func (l *large) mergeMarks() bool {
	n := len(l.given)
	if n < 2 {
		return false
	}
	lower := binary.BigEndian.AppendUint32(slices.Clone(l.marks), l.given[n-1])
	b := l.db.Batch()
	defer func() { _ = b.Close() }()
	it, err := l.db.Iter(lower, successor(lower))
	if err != nil {
		return false // the marks stay where they are, which is harmless
	}
	left, moved := it.First(), 0
	for ; left && moved < holdEntries && err == nil; left = it.Next() {
		to := append([]byte(nil), it.Key()...)
		binary.BigEndian.PutUint32(to[len(l.marks):], l.given[0])
		if err = b.Set(to, nil); err == nil {
			err = b.Delete(it.Key())
		}
		moved++
	}
	if closed := it.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = b.Apply()
	}
	if err != nil {
		return false
	}
	if !left {
		l.given = l.given[:n-1]
	}
	return true
}
