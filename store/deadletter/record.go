package deadletter

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/pipeline"
)

const (
	recordVersion = 1
	kindEntry     = 1
	kindMarks     = 2

	flagGap = 1
)

// Errors of the decoder.
var (
	// ErrCorrupt: a record whose frame was whole does not decode.
	ErrCorrupt = errors.New("dead letter record does not decode")
	// ErrVersion: written by a newer weir.
	ErrVersion = errors.New("dead letter record has an unknown version")
)

// marks carry what is known of evicted entries past the eviction.
type marks struct {
	known         map[name]*ranges
	kept, evicted uint64
}

// ranges is a set of sequences as sorted, disjoint, not touching spans.
type ranges struct{ list []span }

type span struct{ first, last uint64 }

// rangesMax bounds a set: rejected records are few, and one that is older than so many spans does not come again.
const rangesMax = 4096

func (r *ranges) has(first, last uint64) bool {
	i, _ := slices.BinarySearchFunc(r.list, first, func(s span, v uint64) int { return cmp.Compare(s.last, v) })
	return i < len(r.list) && r.list[i].first <= first && last <= r.list[i].last
}

// add tells whether anything of the span was new.
func (r *ranges) add(first, last uint64) bool {
	if r.has(first, last) {
		return false
	}
	i := 0
	for i < len(r.list) && r.list[i].last < first && r.list[i].last+1 != first {
		i++
	}
	j := i
	for j < len(r.list) && (r.list[j].first <= last || r.list[j].first == last+1) {
		first, last = min(first, r.list[j].first), max(last, r.list[j].last)
		j++
	}
	r.list = slices.Replace(r.list, i, j, span{first, last})
	if len(r.list) > rangesMax {
		r.list = slices.Delete(r.list, 0, 1)
	}
	return true
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendEntry(dst []byte, e *Entry, maxPayload int) []byte {
	flags := byte(0)
	if e.Gap {
		flags = flagGap
	}
	dst = append(dst, recordVersion, kindEntry, flags)
	dst = appendString(dst, e.Stream)
	dst = binary.AppendUvarint(dst, e.Generation)
	dst = binary.AppendUvarint(dst, e.Seq)
	dst = binary.AppendUvarint(dst, e.Last-e.Seq)
	dst = binary.AppendUvarint(dst, uint64(e.Pos))
	dst = binary.AppendVarint(dst, e.Time)
	dst = appendString(dst, e.Reason)
	dst = binary.AppendUvarint(dst, uint64(len(e.Payload)))
	return append(dst, e.Payload[:min(len(e.Payload), maxPayload)]...)
}

func appendMarks(dst []byte, m *marks) []byte {
	dst = append(dst, recordVersion, kindMarks)
	dst = binary.AppendUvarint(dst, m.kept)
	dst = binary.AppendUvarint(dst, m.evicted)
	dst = binary.AppendUvarint(dst, uint64(len(m.known)))
	for n, r := range m.known {
		dst = appendString(dst, n.stream)
		dst = binary.AppendUvarint(dst, n.generation)
		dst = binary.AppendUvarint(dst, uint64(len(r.list)))
		for _, s := range r.list {
			dst = binary.AppendUvarint(dst, s.first)
			dst = binary.AppendUvarint(dst, s.last-s.first)
		}
	}
	return dst
}

// decode reads one record: an entry or marks.
func decode(rec []byte) (*Entry, *marks, error) {
	if len(rec) < 3 {
		return nil, nil, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(rec))
	}
	if rec[0] != recordVersion {
		return nil, nil, fmt.Errorf("%w: %d", ErrVersion, rec[0])
	}
	switch rec[1] {
	case kindEntry:
		return decodeEntry(rec[2:])
	case kindMarks:
		return decodeMarks(rec[2:])
	}
	return nil, nil, fmt.Errorf("%w: kind %d", ErrCorrupt, rec[1])
}

// reader reads a record's fields; the first short read sets bad.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) text() string {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// span reads a first sequence and a length; the end may not run over.
func (r *reader) span() (s span) {
	s.first = r.uvarint()
	n := r.uvarint()
	s.last = s.first + n
	if s.last < s.first {
		r.bad = true
	}
	return s
}

func decodeEntry(b []byte) (*Entry, *marks, error) {
	r := reader{b: b[1:]}
	e := &Entry{Gap: b[0]&flagGap != 0, Stream: r.text(), Generation: r.uvarint()}
	s := r.span()
	e.Seq, e.Last = s.first, s.last
	e.Pos = pipeline.Position(r.uvarint())
	t, n := binary.Varint(r.b)
	if n <= 0 {
		return nil, nil, fmt.Errorf("%w: entry", ErrCorrupt)
	}
	r.b = r.b[n:]
	e.Time, e.Reason = t, r.text()
	size := r.uvarint()
	if r.bad || b[0]&^flagGap != 0 || uint64(len(r.b)) > size || size > 1<<40 {
		return nil, nil, fmt.Errorf("%w: entry", ErrCorrupt)
	}
	e.Size, e.Payload = int(size), slices.Clone(r.b)
	return e, nil, nil
}

func decodeMarks(b []byte) (*Entry, *marks, error) {
	r := reader{b: b}
	m := &marks{known: map[name]*ranges{}, kept: r.uvarint(), evicted: r.uvarint()}
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		key := name{r.text(), r.uvarint()}
		set := &ranges{}
		for k := r.uvarint(); k > 0 && !r.bad; k-- {
			s := r.span()
			set.add(s.first, s.last)
		}
		m.known[key] = set
	}
	if r.bad || len(r.b) != 0 {
		return nil, nil, fmt.Errorf("%w: marks", ErrCorrupt)
	}
	return nil, m, nil
}
