package ops

import (
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// held is the place of a row that a sort holds; it is the key of the row in the table.
type held struct {
	time  int64
	pos   pipeline.Position
	index uint32
}

const heldBytes = 8 + 8 + 4

func (h held) appendKey(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.time)^1<<63)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.pos))
	return binary.BigEndian.AppendUint32(dst, h.index)
}

func parseHeld(key []byte) (held, error) {
	if len(key) != heldBytes {
		return held{}, fmt.Errorf("%w: sort key of %d bytes, want %d", ErrState, len(key), heldBytes)
	}
	return held{
		time:  int64(binary.BigEndian.Uint64(key) ^ 1<<63),
		pos:   pipeline.Position(binary.BigEndian.Uint64(key[8:])),
		index: binary.BigEndian.Uint32(key[16:]),
	}, nil
}

type heldHeap []held

func (h heldHeap) Len() int { return len(h) }
func (h heldHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.pos, b.pos), cmp.Compare(a.index, b.index)) < 0
}
func (h heldHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *heldHeap) Push(x any)   { *h = append(*h, x.(held)) }
func (h *heldHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	*h = old[:len(old)-1]
	return e
}

// appendSlots writes a row's values: count, then per value its kind, and the number or the text with its length.
func appendSlots(dst []byte, slots []pipeline.Value) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(slots)))
	for _, v := range slots {
		dst = append(dst, byte(v.Kind))
		switch v.Kind {
		case pipeline.Null:
		case pipeline.Bool:
			dst = append(dst, byte(v.Num))
		case pipeline.Int, pipeline.Uint, pipeline.Float:
			dst = binary.LittleEndian.AppendUint64(dst, v.Num)
		default:
			dst = binary.AppendUvarint(dst, uint64(len(v.Str)))
			dst = append(dst, v.Str...)
		}
	}
	return dst
}

// parseSlots is the inverse of appendSlots; slots and text come from out.
func parseSlots(b []byte, out *pipeline.Out) ([]pipeline.Value, error) {
	count, w := binary.Uvarint(b)
	if w <= 0 || count > uint64(len(b)) { // a value takes a byte at least
		return nil, fmt.Errorf("%w: row of %d bytes", ErrState, len(b))
	}
	b = b[w:]
	slots := out.Slots(int(count))
	for i := range slots {
		n := 0
		if slots[i], n = parseSlot(b, out); n == 0 {
			return nil, fmt.Errorf("%w: row ends inside slot %d", ErrState, i)
		}
		b = b[n:]
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%w: row has %d bytes too many", ErrState, len(b))
	}
	return slots, nil
}

// parseSlot gives one value and its length, 0 when the bytes are none.
func parseSlot(b []byte, out *pipeline.Out) (v pipeline.Value, n int) {
	if len(b) == 0 {
		return v, 0
	}
	v.Kind = pipeline.Kind(b[0])
	switch v.Kind {
	case pipeline.Null:
		return v, 1
	case pipeline.Bool:
		if len(b) < 2 {
			return v, 0
		}
		v.Num = uint64(b[1])
		return v, 2
	case pipeline.Int, pipeline.Uint, pipeline.Float:
		if len(b) < 9 {
			return v, 0
		}
		v.Num = binary.LittleEndian.Uint64(b[1:])
		return v, 9
	case pipeline.String, pipeline.Bytes, pipeline.JSON:
		size, w := binary.Uvarint(b[1:])
		if w <= 0 || size > uint64(len(b)-1-w) {
			return v, 0
		}
		n = 1 + w + int(size)
		v.Str = out.Text(b[1+w : n])
		return v, n
	}
	return v, 0
}
