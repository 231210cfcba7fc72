package savepoint

import (
	"errors"
	"fmt"
	"io"
)

// items reads the items of a file one after another. It holds one, and what was read ahead.
type items struct {
	r    io.ReaderAt
	size int64
	off  int64  // up to where it is read
	buf  []byte // read, and not given yet
	room []byte // buf is in it
}

// readAhead is how much is read at once, at least: more than a chunk mostly has.
const readAhead = 128 << 10

// at is where the next item begins.
func (s *items) at() int64 { return s.off - int64(len(s.buf)) }

// next gives the next item, which the call after it overwrites.
func (s *items) next() ([]byte, error) {
	for {
		n, err := walk(s.buf, depthMax)
		if err == nil {
			item := s.buf[:n]
			s.buf = s.buf[n:]
			return item, nil
		}
		if !errors.Is(err, errShort) || s.off == s.size {
			return nil, fmt.Errorf("%w: item at %d: %w", ErrCorrupt, s.at(), err)
		}
		if err := s.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads on: each time that an item goes on behind what is there, twice as much.
func (s *items) fill() error {
	if len(s.buf) >= itemMax+readAhead {
		return fmt.Errorf("%w: item at %d: more than %d bytes", ErrCorrupt, s.at(), itemMax)
	}
	want := max(readAhead, 2*len(s.buf))
	if cap(s.room) < want {
		s.room = make([]byte, want)
	}
	s.room = s.room[:cap(s.room)]
	have := copy(s.room, s.buf)
	n, err := s.r.ReadAt(s.room[have:have+int(min(int64(len(s.room)-have), s.size-s.off))], s.off)
	if err != nil && (!errors.Is(err, io.EOF) || n == 0) {
		return fmt.Errorf("read savepoint: %w", err)
	}
	s.off += int64(n)
	s.buf = s.room[:have+n]
	return nil
}
