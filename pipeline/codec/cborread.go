package codec

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/x448/float16"

	"github.com/weirstream/weir/pipeline"
)

// The major types of CBOR, the tags that are read, and the simple values.
const (
	majorUnsigned = 0
	majorNegative = 1
	majorBytes    = 2
	majorText     = 3
	majorArray    = 4
	majorMap      = 5
	majorTag      = 6
	majorSimple   = 7

	tagBigPositive = 2
	tagBigNegative = 3

	simpleFalse     = 20
	simpleTrue      = 21
	simpleNull      = 22
	simpleUndefined = 23
	simpleHalf      = 25
	simpleSingle    = 26
	simpleDouble    = 27

	indefinite = 31
	breakByte  = 0xff
)

// cborReader walks an item that is known to be well-formed.
type cborReader struct {
	src []byte
	at  int
}

type cborHead struct {
	major byte
	info  byte
	arg   uint64 // value, length, or elements left
}

func (r *cborReader) head() cborHead {
	b := r.src[r.at]
	h := cborHead{major: b >> 5, info: b & 31}
	r.at++
	switch h.info {
	case 24:
		h.arg = uint64(r.src[r.at])
		r.at++
	case 25:
		h.arg = uint64(binary.BigEndian.Uint16(r.src[r.at:]))
		r.at += 2
	case 26:
		h.arg = uint64(binary.BigEndian.Uint32(r.src[r.at:]))
		r.at += 4
	case 27:
		h.arg = binary.BigEndian.Uint64(r.src[r.at:])
		r.at += 8
	default:
		h.arg = uint64(h.info)
	}
	return h
}

// done tells whether the array or map of h has ended, and counts one element (or pair) otherwise.
func (r *cborReader) done(h *cborHead) bool {
	if h.info == indefinite {
		if r.src[r.at] != breakByte {
			return false
		}
		r.at++
		return true
	}
	if h.arg == 0 {
		return true
	}
	h.arg--
	return false
}

// chunks gives the bytes of a string; those of indefinite length are joined in new memory.
func (r *cborReader) chunks(h cborHead) []byte {
	if h.info != indefinite {
		b := r.src[r.at : r.at+int(h.arg)]
		r.at += int(h.arg)
		return b
	}
	var all []byte
	for r.src[r.at] != breakByte {
		c := r.head()
		all = append(all, r.chunks(c)...)
	}
	r.at++
	return all
}

// key reads a map key: text, or an integer as its digits.
func (r *cborReader) key(buf []byte) ([]byte, error) {
	start := r.at
	switch h := r.head(); h.major {
	case majorText:
		b := r.chunks(h)
		if !utf8.Valid(b) {
			return nil, &Error{Reason: "invalid UTF-8 in a key", Offset: start}
		}
		return b, nil
	case majorUnsigned:
		return strconv.AppendUint(buf, h.arg, 10), nil
	case majorNegative:
		return appendNegative(buf, h.arg), nil
	}
	return nil, &Error{Reason: "want a key of text or an integer", Offset: start}
}

// appendNegative writes -1-arg, which may lie below -2^63.
func appendNegative(dst []byte, arg uint64) []byte {
	if arg == math.MaxUint64 {
		return append(dst, "-18446744073709551616"...)
	}
	return strconv.AppendUint(append(dst, '-'), arg+1, 10)
}

// scalar gives the value of an integer, simple value or float.
func (h cborHead) scalar() (v pipeline.Value, reason string) {
	switch h.major {
	case majorUnsigned:
		return pipeline.UintValue(h.arg), ""
	case majorNegative:
		if h.arg > math.MaxInt64 {
			return v, reasonInteger
		}
		return pipeline.IntValue(-1 - int64(h.arg)), ""
	}
	var f float64
	switch h.info {
	case simpleFalse, simpleTrue:
		return pipeline.BoolValue(h.info == simpleTrue), ""
	case simpleNull, simpleUndefined:
		return pipeline.Value{}, ""
	case simpleHalf:
		f = float64(float16.Frombits(uint16(h.arg)).Float32())
	case simpleSingle:
		f = float64(math.Float32frombits(uint32(h.arg)))
	case simpleDouble:
		f = math.Float64frombits(h.arg)
	default:
		return v, "simple value " + strconv.FormatUint(h.arg, 10) + " has no meaning"
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return v, "number is not finite"
	}
	return pipeline.FloatValue(f), ""
}

// bigInteger reads the bytes of a big number.
func bigInteger(b []byte, negative bool) (pipeline.Value, bool) {
	var m uint64
	for _, c := range b {
		if m>>56 != 0 {
			return pipeline.Value{}, false
		}
		m = m<<8 | uint64(c)
	}
	if !negative {
		return pipeline.UintValue(m), true
	}
	if m > math.MaxInt64 {
		return pipeline.Value{}, false
	}
	return pipeline.IntValue(-1 - int64(m)), true
}
