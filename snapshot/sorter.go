package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/weirstream/weir/pipeline"
)

const (
	// runBytes is how much of a delta is sorted in memory at once; more becomes several runs.
	runBytes = 1 << 20
	// chunkBytes is the size at which a chunk is closed. A merge holds one chunk per run.
	chunkBytes = 64 << 10
	// entryBytesMax is what a key, subkey and value may have together. A chunk holds at least one entry and must fit a
	// segment of the log.
	entryBytesMax = 2 << 20
)

// runSink takes the chunks of sorted runs. index counts from 0 within a run.
type runSink interface {
	chunk(index uint32, b *body) error
	endRun() error
}

// sorter turns the unordered entries of a task's frozen tables into sorted runs in bounded memory.
type sorter struct {
	sink       runSink
	runBytes   int // 0: the constant
	chunkBytes int // 0: the constant
	buf        []byte
	items      []item
	out        body
}

// item is an entry in sorter.buf: key, sub, val one after the other.
type item struct {
	part          *pipeline.StatePart
	off           int
	key, sub, val int
	deleted       bool
}

// write encodes the parts of one task.
func (s *sorter) write(ctx context.Context, parts []pipeline.StatePart) error {
	for i := range parts {
		p := &parts[i]
		err := p.Frozen.Encode(func(key, sub, val []byte, deleted bool) error {
			return s.add(ctx, p, key, sub, val, deleted)
		})
		if err != nil {
			return fmt.Errorf("encode table %s/%s: %w", p.UID, p.Spec.Name, err)
		}
	}
	return s.flush()
}

func (s *sorter) add(ctx context.Context, p *pipeline.StatePart, key, sub, val []byte, deleted bool) error {
	n := len(key) + len(sub) + len(val)
	if n > entryBytesMax {
		return fmt.Errorf("key of %d, value of %d bytes: %w", len(key), len(val), ErrEntryTooLarge)
	}
	if deleted {
		val = nil
	}
	if len(s.items) > 0 && len(s.buf)+n > cmp.Or(s.runBytes, runBytes) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.flush(); err != nil {
			return err
		}
	}
	s.items = append(s.items, item{p, len(s.buf), len(key), len(sub), len(val), deleted})
	s.buf = append(append(append(s.buf, key...), sub...), val...)
	return nil
}

func (s *sorter) entry(it item) entry {
	b := s.buf[it.off:]
	return entry{
		uid: []byte(it.part.UID), table: []byte(it.part.Spec.Name),
		key: b[:it.key], sub: b[it.key : it.key+it.sub], val: b[it.key+it.sub : it.key+it.sub+it.val], deleted: it.deleted,
	}
}

func (s *sorter) less(a, b item) int {
	if a.part != b.part {
		x, y := s.entry(a), s.entry(b)
		return x.compare(&y)
	}
	x, y := s.buf[a.off:], s.buf[b.off:]
	if c := bytes.Compare(x[:a.key], y[:b.key]); c != 0 {
		return c
	}
	return bytes.Compare(x[a.key:a.key+a.sub], y[b.key:b.key+b.sub])
}

// flush writes what is buffered as one run.
func (s *sorter) flush() error {
	if len(s.items) == 0 {
		return nil
	}
	slices.SortFunc(s.items, s.less)
	index := uint32(0)
	s.out.reset()
	for _, it := range s.items {
		e := s.entry(it)
		if len(s.out.buf) > 0 && len(s.out.buf)+it.key+it.sub+it.val > cmp.Or(s.chunkBytes, chunkBytes) {
			if err := s.sink.chunk(index, &s.out); err != nil {
				return err
			}
			index++
			s.out.reset()
		}
		s.out.add(&e)
	}
	if err := s.sink.chunk(index, &s.out); err != nil {
		return err
	}
	s.buf, s.items = s.buf[:0], s.items[:0]
	return s.sink.endRun()
}
