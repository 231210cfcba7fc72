package pipeline

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrSlots is returned for bytes that AppendSlots did not write.
var ErrSlots = errors.New("bytes are no row")

// AppendSlots writes a row's values for a state table: count (uvarint), then each as AppendValue does. The encoding is fixed: it is in
// state and in savepoints.
func AppendSlots(dst []byte, slots []Value) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(slots)))
	for _, v := range slots {
		dst = AppendValue(dst, v)
	}
	return dst
}

// AppendValue writes a value: its kind (1 byte), and the number (8 bytes, little endian; a bool 1 byte) or the text with its length
// (uvarint).
func AppendValue(dst []byte, v Value) []byte {
	dst = append(dst, byte(v.Kind))
	switch v.Kind {
	case Null:
	case Bool:
		dst = append(dst, byte(v.Num))
	case Int, Uint, Float:
		dst = binary.LittleEndian.AppendUint64(dst, v.Num)
	default:
		dst = binary.AppendUvarint(dst, uint64(len(v.Str)))
		dst = append(dst, v.Str...)
	}
	return dst
}

// ParseSlots is the inverse of AppendSlots. The slots are valid to the end of the batch, text as long as it is referenced.
func (o *Out) ParseSlots(b []byte) ([]Value, error) {
	count, w := binary.Uvarint(b)
	if w <= 0 || count > uint64(len(b)) { // a value takes a byte at least
		return nil, fmt.Errorf("%w: %d bytes", ErrSlots, len(b))
	}
	b = b[w:]
	slots := o.Slots(int(count))
	for i := range slots {
		n := 0
		if slots[i], n = o.ParseValue(b); n == 0 {
			return nil, fmt.Errorf("%w: it ends inside slot %d", ErrSlots, i)
		}
		b = b[n:]
	}
	if len(b) > 0 {
		return nil, fmt.Errorf("%w: %d bytes too many", ErrSlots, len(b))
	}
	return slots, nil
}

// ParseValue gives one value and its length, 0 when the bytes are none.
func (o *Out) ParseValue(b []byte) (v Value, n int) {
	if len(b) == 0 {
		return v, 0
	}
	v.Kind = Kind(b[0])
	switch v.Kind {
	case Null:
		return v, 1
	case Bool:
		if len(b) < 2 {
			return v, 0
		}
		v.Num = uint64(b[1])
		return v, 2
	case Int, Uint, Float:
		if len(b) < 9 {
			return v, 0
		}
		v.Num = binary.LittleEndian.Uint64(b[1:])
		return v, 9
	case String, Bytes, JSON:
		size, w := binary.Uvarint(b[1:])
		if w <= 0 || size > uint64(len(b)-1-w) {
			return v, 0
		}
		n = 1 + w + int(size)
		v.Str = o.Text(b[1+w : n])
		return v, n
	}
	return v, 0
}
