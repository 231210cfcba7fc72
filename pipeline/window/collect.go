package window

import (
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
)

// collect keeps the first values in the order of arrival, in an append-list: a checkpoint has the new ones only. Merging two keeps the
// first of both, by their positions. The entry counts the elements:
//
//	0  elements, uint32
//
// All collects of a cell share the list under its key, which is what deals state out to instances. An element: aggregate (1 byte),
// journal position (uint64 big endian), kind, number (uint64 little endian) or, of a text, its bytes.
const (
	collectBytes = 4
	elementHead  = 10
	// collectedBytesMax bounds the array of a row.
	collectedBytesMax = 1 << 20
)

func (s *accumulators) collect(i int, c cell, acc []byte, v pipeline.Value, pos pipeline.Position) {
	n := binary.LittleEndian.Uint32(acc)
	if n >= uint32(s.aggs[i].param) {
		return
	}
	s.text = binary.BigEndian.AppendUint64(append(s.text[:0], byte(i)), uint64(pos))
	s.text = append(s.text, byte(v.Kind))
	if isText(v.Kind) {
		s.text = append(s.text, v.Str...)
	} else {
		s.text = binary.LittleEndian.AppendUint64(s.text, v.Num)
	}
	mustPut(c.side.lists.Append(c.key, s.text))
	binary.LittleEndian.PutUint32(acc, n+1)
}

// readCollected is the inverse of what collect appends. Text aliases b.
func readCollected(b []byte) (pipeline.Position, pipeline.Value, error) {
	if len(b) < elementHead {
		return 0, pipeline.Value{}, fmt.Errorf("%w: collected element of %d bytes", ErrState, len(b))
	}
	pos, v, rest := pipeline.Position(binary.BigEndian.Uint64(b[1:])), pipeline.Value{Kind: pipeline.Kind(b[9])}, b[elementHead:]
	switch {
	case isText(v.Kind):
		v.Str = string(rest)
	case v.Kind >= pipeline.Bool && v.Kind <= pipeline.Float && len(rest) == 8:
		v.Num = binary.LittleEndian.Uint64(rest)
	default:
		return 0, v, fmt.Errorf("%w: collected element of kind %d with %d bytes", ErrState, b[9], len(rest))
	}
	return pos, v, nil
}

func (s *accumulators) mergeCollected(i int, dst, src cell) {
	to, limit := dst.entry[s.aggs[i].at:], int(s.aggs[i].param)
	b := s.elements(i, src)
	if len(b) == 0 {
		return
	}
	if s.endsBefore(i, dst, b[0]) { // pieces in the order of arrival, as nearly always: nothing of dst is copied
		n := int(binary.LittleEndian.Uint32(to))
		for _, e := range b[:min(len(b), max(0, limit-n))] {
			mustPut(dst.side.lists.Append(dst.key, e))
			n++
		}
		binary.LittleEndian.PutUint32(to, uint32(n))
		return
	}
	a := s.elements(i, dst)
	merged := make([][]byte, 0, min(limit, len(a)+len(b)))
	for len(merged) < limit && len(a)+len(b) > 0 {
		if len(b) == 0 || len(a) > 0 && string(a[0][:9]) <= string(b[0][:9]) { // of rows of one position, those of dst
			merged, a = append(merged, a[0]), a[1:]
			continue
		}
		merged, b = append(merged, b[0]), b[1:]
	}
	have := s.elements(i, dst)
	same := 0 // what may stay as it is
	for same < min(len(have), len(merged)) && string(have[same]) == string(merged[same]) {
		same++
	}
	if same < len(have) {
		others := s.elements(-1, dst)
		dst.side.lists.Delete(dst.key)
		for _, e := range others {
			if e[0] != byte(i) {
				mustPut(dst.side.lists.Append(dst.key, e))
			}
		}
		same = 0
	}
	for _, e := range merged[same:] {
		mustPut(dst.side.lists.Append(dst.key, e))
	}
	binary.LittleEndian.PutUint32(to, uint32(len(merged)))
}

// endsBefore tells whether all elements of an aggregate of a cell come before another one.
func (s *accumulators) endsBefore(i int, c cell, other []byte) bool {
	before := true
	c.side.lists.RangeList(c.key, func(e []byte) bool {
		before = e[0] != byte(i) || string(e[:9]) <= string(other[:9])
		return before
	})
	return before
}

// elements copies the elements of an aggregate of a cell, those of all for -1.
func (s *accumulators) elements(i int, c cell) (all [][]byte) {
	c.side.lists.RangeList(c.key, func(e []byte) bool {
		if i < 0 || e[0] == byte(i) {
			all = append(all, append([]byte(nil), e...))
		}
		return true
	})
	return all
}

// collected gives the JSON array of what was collected.
func (s *accumulators) collected(i int, c cell, out *pipeline.Out) pipeline.Value {
	b := append(s.text[:0], '[')
	failed := ""
	c.side.lists.RangeList(c.key, func(e []byte) bool {
		if e[0] != byte(i) {
			return true
		}
		_, v, err := readCollected(e)
		if err == nil {
			if len(b) > 1 {
				b = append(b, ',')
			}
			b, err = codec.AppendValue(b, v)
		}
		switch {
		case err != nil:
			failed = err.Error()
		case len(b) > collectedBytesMax:
			failed = fmt.Sprintf("the array is larger than %d bytes", collectedBytesMax)
		}
		return failed == ""
	})
	s.text = b
	if failed != "" {
		return pipeline.ErrorValue(failed)
	}
	return pipeline.JSONValue(out.Text(append(b, ']')))
}
