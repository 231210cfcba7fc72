package codec

import (
	"math/big"
	"strconv"
	"unicode/utf8"

	"github.com/weirstream/weir/pipeline"
)

// appendJSON appends the item as JSON text: a function of its bytes alone. Integers are exact, whatever their size.
func (r *cborReader) appendJSON(dst []byte) ([]byte, error) {
	start := r.at
	h := r.head()
	switch h.major {
	case majorUnsigned:
		return strconv.AppendUint(dst, h.arg, 10), nil
	case majorNegative:
		return appendNegative(dst, h.arg), nil
	case majorBytes:
		return AppendValue(dst, pipeline.BytesValue(view(r.chunks(h))))
	case majorText:
		b := r.chunks(h)
		if !utf8.Valid(b) {
			return dst, &Error{Reason: "invalid UTF-8 in text", Offset: start}
		}
		return appendText(dst, view(b))
	case majorArray:
		return r.appendArray(dst, h)
	case majorMap:
		return r.appendMap(dst, h)
	case majorTag:
		return r.appendTag(dst, h, start)
	}
	v, reason := h.scalar()
	if reason != "" {
		return dst, &Error{Reason: reason, Offset: start}
	}
	return AppendValue(dst, v)
}

func (r *cborReader) appendArray(dst []byte, h cborHead) ([]byte, error) {
	dst = append(dst, '[')
	for i := 0; !r.done(&h); i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = r.appendJSON(dst); err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), nil
}

func (r *cborReader) appendMap(dst []byte, h cborHead) ([]byte, error) {
	dst = append(dst, '{')
	for i := 0; !r.done(&h); i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		var buf [24]byte
		key, err := r.key(buf[:0])
		if err != nil {
			return dst, err
		}
		if dst, err = appendText(dst, string(key)); err != nil {
			return dst, err
		}
		if dst, err = r.appendJSON(append(dst, ':')); err != nil {
			return dst, err
		}
	}
	return append(dst, '}'), nil
}

// appendTag writes big numbers with all their digits, and any other tag as its content.
func (r *cborReader) appendTag(dst []byte, h cborHead, start int) ([]byte, error) {
	if h.arg == tagBigPositive || h.arg == tagBigNegative {
		content := r.head()
		if content.major != majorBytes {
			return dst, &Error{Reason: "a big number holds bytes", Offset: start}
		}
		b := r.chunks(content)
		if len(b) > bigBytesMax {
			return dst, &Error{Reason: "a big number has more than " + strconv.Itoa(bigBytesMax) + " bytes", Offset: start}
		}
		m := new(big.Int).SetBytes(b)
		if h.arg == tagBigNegative {
			m.Not(m)
		}
		return m.Append(dst, 10), nil
	}
	return r.appendJSON(dst)
}

// bigBytesMax bounds the conversion to decimal digits, which is worse than linear.
const bigBytesMax = 64
