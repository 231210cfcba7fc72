package ops

import (
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// An entry of the table "lag" is the count of values and the values, the oldest first (FORMAT.md).

// nextLag appends the entry that follows val, which may be empty: with v behind it, cut to the last n values. An entry of a longer lag, from a
// config before, loses its oldest. before is the value that v pushed out, null when there were fewer than n.
func nextLag(dst, val []byte, v pipeline.Value, n int) (next []byte, before pipeline.Value) {
	count, w := binary.Uvarint(val)
	val = val[max(w, 0):]
	for ; count >= uint64(n); count-- {
		size := 0
		if before, size = parseLagged(val); size == 0 {
			panic("BUG: a lag entry ends inside a value")
		}
		val = val[size:]
	}
	dst = binary.AppendUvarint(dst, count+1)
	dst = append(dst, val...)
	return appendLagged(dst, v), before
}

// checkLag refuses bytes that are no entry.
func checkLag(val []byte) error {
	count, w := binary.Uvarint(val)
	if w <= 0 || w != len(binary.AppendUvarint(nil, count)) || count == 0 || count > LagMax {
		return fmt.Errorf("%w: lag entry of %d bytes", ErrState, len(val))
	}
	val = val[w:]
	for ; count > 0; count-- {
		_, size := parseLagged(val)
		if size == 0 {
			return fmt.Errorf("%w: lag entry ends inside a value", ErrState)
		}
		val = val[size:]
	}
	if len(val) > 0 {
		return fmt.Errorf("%w: lag entry has %d bytes too many", ErrState, len(val))
	}
	return nil
}

func appendLagged(dst []byte, v pipeline.Value) []byte {
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
	return dst
}

// parseLagged gives one value, and its length, 0 when the bytes are none.
func parseLagged(b []byte) (v pipeline.Value, n int) {
	if len(b) == 0 {
		return v, 0
	}
	v.Kind = pipeline.Kind(b[0])
	switch v.Kind {
	case pipeline.Null:
		return v, 1
	case pipeline.Bool:
		if len(b) < 2 || b[1] > 1 {
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
		if w <= 0 || w != len(binary.AppendUvarint(nil, size)) || size > uint64(len(b)-1-w) {
			return v, 0
		}
		n = 1 + w + int(size)
		v.Str = string(b[1+w : n])
		return v, n
	}
	return v, 0
}
