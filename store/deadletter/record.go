package deadletter

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weirstream/weir/pipeline"
)

const (
	recordVersion = 2 // 1: entries without a number, no removals
	kindEntry     = 1
	kindMarks     = 2
	kindRemoved   = 3
	kindRequeue   = 4

	flagGap = 1
)

// cause tells why an entry was removed.
type cause byte

const (
	causeExpired  cause = 1
	causeRequeued cause = 2
)

// record is one decoded record: exactly one of its parts is set.
type record struct {
	entry   *Entry
	marks   *marks
	removed *removal
	requeue *requeue
}

// removal takes entries out. Of a requeue it names the IDs that are in the journal now, and ends it; of an expiry ids is the one span from 1 to
// the last ID that is gone, number that of its last entry, and count how many of them were still here.
type removal struct {
	cause         cause
	ids           []span
	number, count uint64
}

// requeue says that entries are about to be appended to the journal, behind a position.
type requeue struct {
	after pipeline.Position
	ids   []span
}

// Errors of the decoder.
var (
	// ErrCorrupt: a record whose frame was whole does not decode.
	ErrCorrupt = errors.New("dead letter record does not decode")
	// ErrVersion: written by a newer weir.
	ErrVersion = errors.New("dead letter record has an unknown version")
)

// marks carry what is known of evicted entries past the eviction.
type marks struct {
	known             map[name]*ranges
	kept, evicted     uint64
	expired, requeued uint64
	gone, goneNumber  uint64 // entries up to this ID, and this number, are gone by age
	removed           []span // IDs past it that were put into the journal again
}

// ranges is a set of numbers as sorted, disjoint, not touching spans.
type ranges struct {
	list []span
	all  bool // nothing is forgotten: rangesMax does not hold
}

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
	if len(r.list) > rangesMax && !r.all {
		r.list = slices.Delete(r.list, 0, 1)
	}
	return true
}

// cut forgets what lies up to a number.
func (r *ranges) cut(upTo uint64) {
	n := 0
	for n < len(r.list) && r.list[n].last <= upTo {
		n++
	}
	r.list = slices.Delete(r.list, 0, n)
	if len(r.list) > 0 {
		r.list[0].first = max(r.list[0].first, upTo+1)
	}
}

// within counts what it holds of a span.
func (r *ranges) within(first, last uint64) (n uint64) {
	for _, s := range r.list {
		if lo, hi := max(first, s.first), min(last, s.last); lo <= hi {
			n += hi - lo + 1
		}
	}
	return n
}

// count is how many numbers it holds.
func (r *ranges) count() (n uint64) {
	for _, s := range r.list {
		n += s.last - s.first + 1
	}
	return n
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
	dst = binary.AppendUvarint(dst, e.Number)
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
	dst = binary.AppendUvarint(dst, m.expired)
	dst = binary.AppendUvarint(dst, m.requeued)
	dst = binary.AppendUvarint(dst, m.gone)
	dst = binary.AppendUvarint(dst, m.goneNumber)
	return appendSpans(dst, m.removed)
}

func appendSpans(dst []byte, list []span) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, s := range list {
		dst = binary.AppendUvarint(dst, s.first)
		dst = binary.AppendUvarint(dst, s.last-s.first)
	}
	return dst
}

func appendRemoved(dst []byte, r *removal) []byte {
	dst = append(dst, recordVersion, kindRemoved, byte(r.cause))
	dst = binary.AppendUvarint(dst, r.number)
	dst = binary.AppendUvarint(dst, r.count)
	return appendSpans(dst, r.ids)
}

func appendRequeue(dst []byte, r *requeue) []byte {
	dst = append(dst, recordVersion, kindRequeue)
	dst = binary.AppendUvarint(dst, uint64(r.after))
	return appendSpans(dst, r.ids)
}

// decode reads one record. Entries of version 1 have the number 0.
func decode(rec []byte) (r record, err error) {
	if len(rec) < 3 {
		return r, fmt.Errorf("%w: %d bytes", ErrCorrupt, len(rec))
	}
	version := rec[0]
	if version > recordVersion {
		return r, pipeline.Newer(ErrVersion, "dead letter record", uint64(version), recordVersion)
	}
	if version == 0 {
		return r, fmt.Errorf("%w: version 0", ErrCorrupt)
	}
	switch {
	case rec[1] == kindEntry:
		r.entry, err = decodeEntry(rec[2:], version)
	case rec[1] == kindMarks:
		r.marks, err = decodeMarks(rec[2:], version)
	case rec[1] == kindRemoved && version > 1:
		r.removed, err = decodeRemoved(rec[2:])
	case rec[1] == kindRequeue && version > 1:
		r.requeue, err = decodeRequeue(rec[2:])
	default:
		err = fmt.Errorf("%w: kind %d", ErrCorrupt, rec[1])
	}
	return r, err
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

// spans reads a list of spans; they rise and do not touch.
func (r *reader) spans() (list []span) {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		s := r.span()
		if k := len(list); k > 0 && s.first <= list[k-1].last {
			r.bad = true
		}
		list = append(list, s)
	}
	return list
}

func decodeEntry(b []byte, version byte) (*Entry, error) {
	r := reader{b: b[1:]}
	e := &Entry{Gap: b[0]&flagGap != 0}
	if version > 1 {
		e.Number = r.uvarint()
	}
	e.Stream, e.Generation = r.text(), r.uvarint()
	s := r.span()
	e.Seq, e.Last = s.first, s.last
	e.Pos = pipeline.Position(r.uvarint())
	t, n := binary.Varint(r.b)
	if n <= 0 {
		return nil, fmt.Errorf("%w: entry", ErrCorrupt)
	}
	r.b = r.b[n:]
	e.Time, e.Reason = t, r.text()
	size := r.uvarint()
	if r.bad || b[0]&^flagGap != 0 || uint64(len(r.b)) > size || size > math.MaxInt32 {
		return nil, fmt.Errorf("%w: entry", ErrCorrupt)
	}
	e.Size, e.Payload = int(size), slices.Clone(r.b)
	return e, nil
}

func decodeMarks(b []byte, version byte) (*marks, error) {
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
	if version > 1 {
		m.expired, m.requeued = r.uvarint(), r.uvarint()
		m.gone, m.goneNumber = r.uvarint(), r.uvarint()
		m.removed = r.spans()
	}
	if r.bad || len(r.b) != 0 {
		return nil, fmt.Errorf("%w: marks", ErrCorrupt)
	}
	return m, nil
}

func decodeRemoved(b []byte) (*removal, error) {
	r := reader{b: b[1:]}
	m := &removal{cause: cause(b[0]), number: r.uvarint(), count: r.uvarint()}
	m.ids = r.spans()
	if r.bad || len(r.b) != 0 || m.cause != causeExpired && m.cause != causeRequeued || m.cause == causeExpired && len(m.ids) != 1 {
		return nil, fmt.Errorf("%w: removal", ErrCorrupt)
	}
	return m, nil
}

func decodeRequeue(b []byte) (*requeue, error) {
	r := reader{b: b}
	q := &requeue{after: pipeline.Position(r.uvarint())}
	q.ids = r.spans()
	if r.bad || len(r.b) != 0 {
		return nil, fmt.Errorf("%w: requeue", ErrCorrupt)
	}
	return q, nil
}
