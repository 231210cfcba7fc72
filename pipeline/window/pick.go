package window

import (
	"cmp"
	"encoding/binary"
	"math"

	"github.com/weirstream/weir/pipeline"
)

// min, max, first and last pick one of their arguments: its kind (null until there was one) and its number; first and last
// also the journal position of its row. Text lies in the table "text" under the window's key and the aggregate's index.
const (
	pickBytes   = 9
	placedBytes = 17
)

func (s *accumulators) pick(kind AggKind, i int, c cell, acc []byte, v pipeline.Value, pos pipeline.Position) {
	if have := picked(acc); !have.IsNull() && kind != Last {
		if kind == First {
			return
		}
		if d := s.compareToPicked(i, c, v, have); kind == Min && d >= 0 || kind == Max && d <= 0 {
			return
		}
	}
	s.setPicked(kind, i, c, acc, v, pos)
}

// setPicked makes v what is picked. Its text may lie in a state table.
func (s *accumulators) setPicked(kind AggKind, i int, c cell, acc []byte, v pipeline.Value, pos pipeline.Position) {
	acc[0] = byte(v.Kind)
	binary.LittleEndian.PutUint64(acc[1:], v.Num)
	if kind == First || kind == Last {
		binary.LittleEndian.PutUint64(acc[pickBytes:], uint64(pos))
	}
	if isText(v.Kind) {
		s.text = append(s.text[:0], v.Str...)
		mustPut(c.side.texts.PutSub(c.key, s.subkey(i), s.text))
	}
}

// mustPut is for tables without max_keys.
func mustPut(err error) {
	if err != nil {
		panic("BUG: a table of a side has no limit of its own: " + err.Error())
	}
}

// mergePicked keeps the smaller, larger, earlier or later. Of equal numbers that of dst stays; of rows of one position, for
// first that of dst, for last that of src: they are merged in the order of time.
func (s *accumulators) mergePicked(kind AggKind, i int, dst, src cell) {
	to, from := dst.entry[s.aggs[i].at:], src.entry[s.aggs[i].at:]
	v, have := picked(from), picked(to)
	if v.IsNull() {
		return
	}
	if isText(v.Kind) {
		text, _ := src.side.texts.GetSub(src.key, s.subkey(i))
		s.text = append(s.text[:0], text...)
		v.Str = string(s.text)
	}
	var pos uint64
	if kind == First || kind == Last {
		pos = binary.LittleEndian.Uint64(from[pickBytes:])
	}
	if !have.IsNull() {
		keep := false
		switch kind {
		case Min:
			keep = s.compareToPicked(i, dst, v, have) >= 0
		case Max:
			keep = s.compareToPicked(i, dst, v, have) <= 0
		case First:
			keep = pos >= binary.LittleEndian.Uint64(to[pickBytes:]) || s.fault.arrival
		case Last:
			keep = pos < binary.LittleEndian.Uint64(to[pickBytes:]) && !s.fault.arrival
		}
		if keep {
			return
		}
	}
	s.setPicked(kind, i, dst, to, v, pipeline.Position(pos))
}

// compareToPicked fetches the text of what was picked only when it decides.
func (s *accumulators) compareToPicked(i int, c cell, v, have pipeline.Value) int {
	if !isText(have.Kind) || have.Kind != v.Kind {
		return compareValues(v, have)
	}
	text, _ := c.side.texts.GetSub(c.key, s.subkey(i))
	switch { // these conversions allocate nothing
	case v.Str == string(text):
		return 0
	case v.Str < string(text):
		return -1
	}
	return 1
}

// picked gives what acc holds, without text.
func picked(acc []byte) pipeline.Value {
	return pipeline.Value{Kind: pipeline.Kind(acc[0]), Num: binary.LittleEndian.Uint64(acc[1:])}
}

func isText(k pipeline.Kind) bool {
	return k == pipeline.String || k == pipeline.Bytes || k == pipeline.JSON
}

// compareValues orders values as their keys are ordered: bool < number < string < bytes < json; numbers exactly, whatever
// their kinds. Two texts of one kind are not compared here.
func compareValues(a, b pipeline.Value) int {
	if a.IsNumber() && b.IsNumber() {
		return compareNumbers(a, b)
	}
	if a.Kind != b.Kind {
		return cmp.Compare(rank(a.Kind), rank(b.Kind))
	}
	return cmp.Compare(a.Num, b.Num)
}

func rank(k pipeline.Kind) int {
	switch k {
	case pipeline.Int, pipeline.Uint, pipeline.Float:
		return int(pipeline.Int)
	}
	return int(k)
}

func compareNumbers(a, b pipeline.Value) int {
	switch {
	case a.Kind == pipeline.Float && b.Kind == pipeline.Float:
		return cmp.Compare(a.Float(), b.Float())
	case a.Kind == pipeline.Float:
		return -compareToFloat(b, a.Float())
	case b.Kind == pipeline.Float:
		return compareToFloat(a, b.Float())
	case a.Kind == b.Kind && a.Kind == pipeline.Int:
		return cmp.Compare(a.Int(), b.Int())
	case a.Kind == b.Kind:
		return cmp.Compare(a.Uint(), b.Uint())
	}
	return cmp.Compare(rankInt(a), rankInt(b)) // a Uint is above every Int
}

func rankInt(v pipeline.Value) int {
	if v.Kind == pipeline.Uint {
		return 1
	}
	return 0
}

// compareToFloat compares an integer with a float without rounding either.
func compareToFloat(v pipeline.Value, f float64) int {
	whole := math.Trunc(f)
	if v.Kind == pipeline.Int {
		switch {
		case whole >= 1<<63:
			return -1
		case whole < -(1 << 63):
			return 1
		}
		return cmp.Or(cmp.Compare(v.Int(), int64(whole)), cmp.Compare(0, f-whole))
	}
	switch {
	case whole >= 1<<64:
		return -1
	case whole < 0:
		return 1
	}
	return cmp.Or(cmp.Compare(v.Uint(), uint64(whole)), cmp.Compare(0, f-whole))
}
