package window

import (
	"encoding/binary"
	"fmt"
)

type sessionHead struct {
	Span
	due    int64
	number uint32
	at     int // of its bytes in the entry
}

// check tells whether sessions can be those of a key.
func (s *Session) check(all []sessionHead) error {
	for i, h := range all {
		if !assignable(h.Start) || h.End < h.Start+s.assign.gap || !assignable(h.End-s.assign.gap) || h.due != never && (h.due > h.End || !assignable(h.due)) ||
			i > 0 && (h.Start <= all[i-1].Start || s.assign.Meets(h.Span, all[i-1].Span)) {
			return fmt.Errorf("%w: session [%d, %d) that comes out at %d", ErrState, h.Start, h.End, h.due)
		}
	}
	return nil
}

// parse lists the sessions of an entry.
func (s *Session) parse(entry []byte) []sessionHead {
	s.list = s.list[:0]
	for at := 0; at < len(entry); at += s.oneBytes() {
		b := entry[at:]
		s.list = append(s.list, sessionHead{
			Span:   Span{int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))},
			due:    int64(binary.LittleEndian.Uint64(b[16:])),
			number: binary.LittleEndian.Uint32(b[24:]), at: at,
		})
	}
	return s.list
}

func putHead(b []byte, h sessionHead) {
	binary.LittleEndian.PutUint64(b, uint64(h.Start))
	binary.LittleEndian.PutUint64(b[8:], uint64(h.End))
	binary.LittleEndian.PutUint64(b[16:], uint64(h.due))
	binary.LittleEndian.PutUint32(b[24:], h.number)
}
