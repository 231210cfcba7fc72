package log

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sort"
)

// Reader gives the durable records in order. It is for one goroutine; a log may have many.
type Reader struct {
	l     *Log
	next  uint64
	buf   []byte
	eager bool
}

// Reader starts at position from, which may lie ahead of the last record. ErrTrimmed: it lies below First.
func (l *Log) Reader(from uint64) (*Reader, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if from < l.first {
		return nil, fmt.Errorf("read log from %d, first is %d: %w", from, l.first, ErrTrimmed)
	}
	return &Reader{l: l, next: from}, nil
}

// EagerReader is a Reader that gives records as soon as they are written, before they are synced: after a crash they may be gone, and their
// positions be given out again. Whoever relies on one, in a checkpoint or towards somebody else, waits for Durable or calls Sync. Close it.
func (l *Log) EagerReader(from uint64) (*Reader, error) {
	r, err := l.Reader(from)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r.eager = true
	l.eager++
	return r, nil
}

// Next waits for durable records behind those it gave and gives at most one frame of them. At the tail they come from memory; a
// lagging reader reads the file and verifies it. A damaged frame is a Block with Lost set. ErrTrimmed: the next record is gone;
// ErrFailed, ErrClosed: no more will come.
func (r *Reader) Next(ctx context.Context) (*Block, error) {
	for {
		b, moved, err := r.poll()
		if err != nil {
			return nil, err
		}
		if b != nil {
			r.next = b.Last + 1
			return b, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close ends the reader. Blocks that it gave stay valid. Repeating it is harmless.
func (r *Reader) Close() error {
	r.buf = nil
	if r.eager {
		r.l.mu.Lock()
		r.l.eager--
		r.l.mu.Unlock()
		r.eager = false
	}
	return nil
}

// ReadBack calls f for the durable blocks from the newest to the oldest until it returns false. What is trimmed meanwhile is left out.
func (l *Log) ReadBack(f func(b *Block) (more bool, err error)) error {
	r := Reader{l: l}
	defer r.Close()
	for upTo, more := l.Durable(), true; more; {
		var held bool
		if r.next, held = l.blockOf(upTo); !held {
			return nil
		}
		b, _, err := r.poll()
		switch {
		case errors.Is(err, ErrTrimmed):
			return nil
		case err != nil:
			return err
		}
		upTo = b.First - 1
		if more, err = f(b); err != nil {
			return err
		}
	}
	return nil
}

// blockOf is the first position of the block that holds pos; false when pos lies below First.
func (l *Log) blockOf(pos uint64) (first uint64, held bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if pos < l.first || pos == 0 || len(l.segments) == 0 {
		return 0, false
	}
	if len(l.tail) > 0 && l.tail[0].First <= pos {
		first = l.tail[sort.Search(len(l.tail), func(i int) bool { return l.tail[i].Last >= pos })].First
	} else {
		seg := l.segments[sort.Search(len(l.segments), func(i int) bool { return l.segments[i].last() >= pos })]
		first = seg.find(pos).first
	}
	return max(first, l.first), true
}

// poll gives the next block, or what to wait for.
func (r *Reader) poll() (*Block, <-chan struct{}, error) {
	l := r.l
	l.files.RLock()
	defer l.files.RUnlock()
	l.mu.Lock()
	switch {
	case errors.Is(l.err, ErrClosed):
		defer l.mu.Unlock()
		return nil, nil, l.err
	case r.next < l.first:
		defer l.mu.Unlock()
		return nil, nil, fmt.Errorf("read log at %d, first is %d: %w", r.next, l.first, ErrTrimmed)
	case r.next > l.durable:
		defer l.mu.Unlock()
		if b := l.unsyncedBlock(r.next); b != nil && r.eager && l.err == nil {
			return b.from(r.next), nil, nil
		}
		return nil, l.moved, l.err
	case len(l.tail) > 0 && l.tail[0].First <= r.next:
		b := l.tail[sort.Search(len(l.tail), func(i int) bool { return l.tail[i].Last >= r.next })]
		l.mu.Unlock()
		return b.from(r.next), nil, nil
	}
	seg := l.segments[sort.Search(len(l.segments), func(i int) bool { return l.segments[i].last() >= r.next })]
	ref := seg.find(r.next)
	epoch := seg.epoch
	l.mu.Unlock()
	b, err := r.read(seg, epoch, ref)
	if err == nil {
		return b.from(r.next), nil, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.next < l.first {
		return nil, nil, fmt.Errorf("read log at %d, first is %d: %w", r.next, l.first, ErrTrimmed)
	}
	if !damaged(err) {
		return nil, nil, fmt.Errorf("read %s at %d: %w", seg.name, ref.off, err)
	}
	l.stats.DamagedReads++
	l.o.Logger.Error("log frame is damaged: records lost", "segment", seg.name, "offset", ref.off, "first", ref.first, "last", ref.last, "error", err)
	return (&Block{First: ref.first, Last: ref.last, Lost: true}).from(r.next), nil, nil
}

// unsyncedBlock gives the block at pos that was written and is not durable yet; nil: there is none. mu is held.
func (l *Log) unsyncedBlock(pos uint64) *Block {
	for _, b := range l.ahead {
		if pos >= b.First && pos <= b.Last {
			return b
		}
	}
	return nil
}

func damaged(err error) bool {
	return errors.Is(err, ErrMagic) || errors.Is(err, ErrChecksum) || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrVersion) || errors.Is(err, ErrFlags)
}

// read reads and verifies one frame.
func (r *Reader) read(seg *segment, epoch uint64, ref frameRef) (*Block, error) {
	if ref.size == 0 {
		r.l.mu.Lock()
		defer r.l.mu.Unlock()
		at := r.l.lostAt[ref.first]
		return &Block{First: ref.first, Last: ref.last, Lost: true, LeftOut: at.leftOut, Stamp: at.stamp}, nil
	}
	if cap(r.buf) < ref.size {
		r.buf = make([]byte, max(ref.size, 64<<10))
	}
	b := r.buf[:ref.size]
	if n, err := seg.file.ReadAt(b, ref.off); n < len(b) && err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	h, body, err := parse(b)
	switch {
	case err != nil:
		return nil, err
	case h.first != ref.first || h.last != ref.last || h.epoch != epoch && !r.l.bugs.noEpoch:
		return nil, ErrCorrupt
	}
	raw, err := unpack(r.l.o.Codec, &h, body)
	if err != nil {
		return nil, err
	}
	return &Block{First: h.first, Last: h.last, Stamp: h.stamp, raw: raw}, nil
}
