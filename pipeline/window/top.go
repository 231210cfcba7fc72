package window

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// top keeps the first rows of windows in an order. What a cell holds is one list of rows, in that order, in a table of its own; the cell's
// entry holds nothing. Rows of equal rank stand in the order of arrival. Null comes last, whatever the direction.
type top struct {
	c             Top
	kept, partial *side // stand for the two tables
	rows, scratch *state.Table
	list, other   []ranked // scratch
	buf           []byte
}

// ranked is a row of a list: its rank as bytes that sort (null last, then the order, then arrival), and its columns as they are stored.
type ranked struct{ rank, columns []byte }

func newTop(c Top) *top { return &top{c: c, kept: &side{}, partial: &side{}} }

func (t *top) open(tables pipeline.Tables) (err error) {
	t.scratch = state.NewScratch(state.Spec{Name: "rows", Kind: state.Value})
	t.rows, err = tables.Table(state.Spec{Name: "rows", Kind: state.Value, Type: "window.rows", Version: 1})
	return err
}

func (t *top) table(c cell) *state.Table {
	if c.side == t.partial {
		return t.scratch
	}
	return t.rows
}

func (t *top) arguments(slots, args []pipeline.Value) (refusal string) {
	if args[0] = t.c.Order.Eval(slots); args[0].Kind == pipeline.Error {
		return "top: " + args[0].Str
	}
	return ""
}

// appendRank writes the order of a value: byte order is that in which rows come out.
func (t *top) appendRank(dst []byte, v pipeline.Value) []byte {
	if v.IsNull() {
		return append(dst, 1)
	}
	dst = append(dst, 0)
	from := len(dst)
	dst, _ = pipeline.AppendKey(dst, v)
	if t.c.Descending { // no key is the beginning of another, so that turning the bits turns the order
		for i := from; i < len(dst); i++ {
			dst[i] = ^dst[i]
		}
	}
	return dst
}

// add counts a row in.
func (t *top) add(c cell, r *pipeline.Row, order pipeline.Value) {
	table := t.table(c)
	val, _ := table.Get(c.key)
	t.list = t.parse(t.list[:0], val)
	t.buf = t.appendRank(t.buf[:0], order)
	rank := len(t.buf)
	n := len(t.list)
	at := n
	for at > 0 && bytes.Compare(t.list[at-1].rank, t.buf[:rank]) > 0 {
		at--
	}
	if at >= t.c.N && (!t.c.Ties || at >= topMax || !bytes.Equal(t.list[t.c.N-1].rank, t.buf[:rank])) {
		return
	}
	for _, slot := range t.c.Columns {
		t.buf = appendValue(t.buf, r.Slots[slot])
	}
	t.list = append(t.list, ranked{})
	copy(t.list[at+1:], t.list[at:])
	t.list[at] = ranked{t.buf[:rank:rank], t.buf[rank:]}
	t.store(table, c.key, t.list)
}

// store cuts a list to what is kept and writes it.
func (t *top) store(table *state.Table, key []byte, list []ranked) {
	list = list[:t.keep(list)]
	size := 0
	for _, r := range list {
		size += 8 + len(r.rank) + len(r.columns)
	}
	b := make([]byte, 0, size) // the list may lie in the table's own memory
	for _, r := range list {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(r.rank)))
		b = binary.LittleEndian.AppendUint32(b, uint32(len(r.columns)))
		b = append(append(b, r.rank...), r.columns...)
	}
	mustPut(table.Put(key, b))
}

// keep tells how many of a sorted list stay.
func (t *top) keep(list []ranked) int {
	n := min(len(list), t.c.N)
	if t.c.Ties && n == t.c.N {
		for n < min(len(list), topMax) && bytes.Equal(list[n].rank, list[t.c.N-1].rank) {
			n++
		}
	}
	return n
}

func (t *top) parse(list []ranked, b []byte) []ranked {
	for len(b) >= 8 {
		rank, columns := int(binary.LittleEndian.Uint32(b)), int(binary.LittleEndian.Uint32(b[4:]))
		b = b[8:]
		list = append(list, ranked{b[:rank:rank], b[rank : rank+columns]})
		b = b[rank+columns:]
	}
	return list
}

// checkRows tells whether a stored list can be read.
func (t *top) checkRows(b []byte) error {
	for len(b) > 0 {
		if len(b) < 8 {
			return fmt.Errorf("%w: list of rows is cut", ErrState)
		}
		rank, columns := uint64(binary.LittleEndian.Uint32(b)), uint64(binary.LittleEndian.Uint32(b[4:]))
		if rank+columns > uint64(len(b)-8) {
			return fmt.Errorf("%w: list of rows is cut", ErrState)
		}
		rest := b[8+rank : 8+rank+columns]
		for range t.c.Columns {
			n, err := valueBytes(rest)
			if err != nil {
				return err
			}
			rest = rest[n:]
		}
		if len(rest) > 0 {
			return fmt.Errorf("%w: row has %d bytes too many", ErrState, len(rest))
		}
		b = b[8+rank+columns:]
	}
	return nil
}

func (t *top) restored() (err error) {
	t.rows.Range(func(_, _, val []byte) bool {
		err = t.checkRows(val)
		return err == nil
	})
	return err
}

// merge adds the rows of src to dst. Of equal rank those of dst stand first: panes are merged in the order of time.
func (t *top) merge(dst, src cell) {
	from, _ := t.table(src).Get(src.key)
	if len(from) == 0 {
		return
	}
	to, _ := t.table(dst).Get(dst.key)
	a, b := t.parse(t.list[:0], to), t.parse(t.other[:0], from)
	t.list, t.other = a, b
	merged := make([]ranked, 0, len(a)+len(b))
	for len(a) > 0 && len(b) > 0 {
		if bytes.Compare(a[0].rank, b[0].rank) <= 0 {
			merged, a = append(merged, a[0]), a[1:]
		} else {
			merged, b = append(merged, b[0]), b[1:]
		}
	}
	t.store(t.table(dst), dst.key, append(append(merged, a...), b...))
}

func (t *top) forget(c cell) {
	if table := t.table(c); table.Len() > 0 {
		table.Delete(c.key)
	}
}

// each calls f for the rows of a cell, with their ranks: equal rows have one rank.
func (t *top) each(c cell, out *pipeline.Out, f func(rank int, row []byte)) {
	val, _ := t.table(c).Get(c.key)
	t.list = t.parse(t.list[:0], val)
	rank := 0
	for i, r := range t.list {
		if !t.c.Ties || i == 0 || !bytes.Equal(r.rank, t.list[i-1].rank) {
			rank = i + 1
		}
		f(rank, r.columns)
	}
}

// fill puts the rank and a row's columns into a row that comes out.
func (t *top) fill(slots []pipeline.Value, rank int, row []byte, out *pipeline.Out) {
	if t.c.RankSlot >= 0 {
		slots[t.c.RankSlot] = pipeline.IntValue(int64(rank))
	}
	for _, slot := range t.c.Out {
		slots[slot], row = takeValue(row, out)
	}
}

// appendValue writes a value: its kind, and its number or its text with the length.
func appendValue(dst []byte, v pipeline.Value) []byte {
	dst = append(dst, byte(v.Kind))
	if isText(v.Kind) {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(v.Str)))
		return append(dst, v.Str...)
	}
	if v.IsNull() {
		return dst
	}
	return binary.LittleEndian.AppendUint64(dst, v.Num)
}

// valueBytes is the length of the value that b begins with.
func valueBytes(b []byte) (int, error) {
	n := 1
	switch {
	case len(b) == 0 || pipeline.Kind(b[0]) >= pipeline.Error:
		return 0, fmt.Errorf("%w: row holds no value", ErrState)
	case pipeline.Kind(b[0]) == pipeline.Null:
	case !isText(pipeline.Kind(b[0])):
		n = 9
	case len(b) < 5:
		n = 5
	default:
		size := binary.LittleEndian.Uint32(b[1:])
		if uint64(size) > uint64(len(b)-5) { // an int may have 32 bits
			return 0, fmt.Errorf("%w: value is cut", ErrState)
		}
		n = 5 + int(size)
	}
	if n > len(b) {
		return 0, fmt.Errorf("%w: value is cut", ErrState)
	}
	return n, nil
}

func takeValue(b []byte, out *pipeline.Out) (v pipeline.Value, rest []byte) {
	n, err := valueBytes(b)
	if err != nil {
		panic("BUG: a row that was never written: " + err.Error())
	}
	v.Kind = pipeline.Kind(b[0])
	switch {
	case isText(v.Kind):
		v.Str = out.Text(b[5:n])
	case v.Kind != pipeline.Null:
		v.Num = binary.LittleEndian.Uint64(b[1:])
	}
	return v, b[n:]
}
