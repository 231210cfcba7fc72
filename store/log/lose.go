package log

import (
	"bytes"
	"fmt"
	"path/filepath"

	"github.com/weirstream/weir/store/disk"
)

// lose notes that positions up to last have no records.
func (s *survey) lose(g *segment, off int64, last uint64, reason, aside string, known bool) {
	g.frames = append(g.frames, frameRef{off: off, first: s.next, last: last})
	g.first = min(g.first, s.next)
	s.l.lostAt[s.next] = lostRange{stamp: s.stamp}
	s.rec.Lost = append(s.rec.Lost, Lost{First: s.next, Last: last, Reason: reason, Aside: aside, Known: known})
	s.next = last + 1
}

// missing notes that the segments in front of g are not there. A file without bytes says so to the next Open.
func (s *survey) missing(g *segment) error {
	_, known, err := s.keepAside(g.first-1, nil)
	if err == nil {
		s.lose(g, headerBytes, g.first-1, "segment is missing", "", known)
	}
	return err
}

// keepAside keeps what lies in the place of positions up to last in a file of its own. known: it was there.
func (s *survey) keepAside(last uint64, b []byte) (aside string, known bool, err error) {
	aside = filepath.Join(s.l.o.Dir, fmt.Sprintf("aside-%020d-%020d", s.next, last))
	have, err := disk.ReadFile(s.l.o.FS, aside)
	if err == nil && bytes.Equal(have, b) {
		return aside, true, nil
	}
	if err := disk.WriteFileAtomic(s.l.o.FS, aside, b); err != nil {
		return "", false, fmt.Errorf("set damage aside: %w", err)
	}
	return aside, false, nil
}

// damage keeps the bytes of a damaged range in a file of its own, once, and notes the loss.
func (s *survey) damage(g *segment, buf []byte, off, to int64, last uint64) error {
	aside, known, err := s.keepAside(last, buf[off:to])
	if err == nil {
		s.lose(g, off, last, "frame is damaged", aside, known)
	}
	return err
}
