package codec

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/weirstream/weir/pipeline"
)

// sparkplugType is a data type of Sparkplug B.
type sparkplugType uint32

// The types that code asks for; the others stand in the table.
const (
	typeUnknown  sparkplugType = 0
	typeInt8     sparkplugType = 1
	typeInt64    sparkplugType = 4
	typeUInt8    sparkplugType = 5
	typeUInt64   sparkplugType = 8
	typeFloat    sparkplugType = 9
	typeDouble   sparkplugType = 10
	typeBoolean  sparkplugType = 11
	typeString   sparkplugType = 12
	typeDateTime sparkplugType = 13
	typeText     sparkplugType = 14
	typeUUID     sparkplugType = 15
	typeBytes    sparkplugType = 17
	typeFile     sparkplugType = 18

	typeInt8Array     sparkplugType = 22
	typeUInt64Array   sparkplugType = 29
	typeFloatArray    sparkplugType = 30
	typeDoubleArray   sparkplugType = 31
	typeBooleanArray  sparkplugType = 32
	typeStringArray   sparkplugType = 33
	typeDateTimeArray sparkplugType = 34
)

var sparkplugTypeNames = [...]string{
	"", "Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64", "Float", "Double", "Boolean", "String", "DateTime", "Text", "UUID",
	"DataSet", "Bytes", "File", "Template", "PropertySet", "PropertySetList", "Int8Array", "Int16Array", "Int32Array", "Int64Array", "UInt8Array",
	"UInt16Array", "UInt32Array", "UInt64Array", "FloatArray", "DoubleArray", "BooleanArray", "StringArray", "DateTimeArray",
}

func (t sparkplugType) String() string {
	if int(t) < len(sparkplugTypeNames) && t > 0 {
		return sparkplugTypeNames[t]
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// value gives a metric's value as its type says. Null: is_null, no value, a type without a form here (data set, template, property set), or no
// type at all. reason: it cannot be read.
func (m *sparkplugMetric) value(t sparkplugType) (v pipeline.Value, reason string) {
	if m.null || m.field == 0 {
		return v, ""
	}
	mismatch := func() (pipeline.Value, string) {
		return pipeline.Value{}, fmt.Sprintf("declared %s, found the value in field %d", t, m.field)
	}
	switch {
	case t >= typeInt8 && t <= typeUInt64:
		if m.field != valueInt && m.field != valueLong {
			return mismatch()
		}
		return m.integer(t)
	case t == typeDateTime:
		if m.field != valueLong && m.field != valueInt {
			return mismatch()
		}
		return unsigned(m.number), ""
	case t == typeFloat || t == typeDouble:
		if m.field != valueFloat && m.field != valueDouble {
			return mismatch()
		}
		return finite(m.float())
	case t == typeBoolean:
		if m.field != valueBool {
			return mismatch()
		}
		return pipeline.BoolValue(m.number != 0), ""
	case t == typeString || t == typeText || t == typeUUID:
		if m.field != valueString {
			return mismatch()
		}
		if !utf8.Valid(m.raw) {
			return v, "invalid UTF-8"
		}
		return pipeline.StringValue(view(m.raw)), ""
	case t == typeBytes || t == typeFile:
		if m.field != valueBytes {
			return mismatch()
		}
		return pipeline.BytesValue(view(m.raw)), ""
	case t >= typeInt8Array && t <= typeDateTimeArray:
		if m.field != valueBytes {
			return mismatch()
		}
		return sparkplugArray(m.raw, t)
	}
	return v, ""
}

func (m *sparkplugMetric) float() float64 {
	if m.field == valueFloat {
		return float64(math.Float32frombits(uint32(m.number)))
	}
	return math.Float64frombits(m.number)
}

func finite(f float64) (pipeline.Value, string) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return pipeline.Value{}, "number is not finite"
	}
	return pipeline.FloatValue(f), ""
}

func unsigned(u uint64) pipeline.Value {
	if u <= math.MaxInt64 {
		return pipeline.IntValue(int64(u))
	}
	return pipeline.UintValue(u)
}

// integer reads an int of 8 to 64 bits. Encoders differ: a negative number comes in two's complement of its own width, of 32 bits (int_value) or
// of 64 (long_value), and unsigned 32-bit ones come in either field. What fits in none of these ways is refused, never cut.
func (m *sparkplugMetric) integer(t sparkplugType) (pipeline.Value, string) {
	outOf := func() (pipeline.Value, string) {
		return pipeline.Value{}, fmt.Sprintf("%d is out of range of %s", m.number, t)
	}
	if t >= typeUInt8 {
		bits := 8 << (t - typeUInt8)
		if bits < 64 && m.number>>bits != 0 {
			return outOf()
		}
		return unsigned(m.number), ""
	}
	bits := 8 << (t - typeInt8)
	shift := 64 - bits
	own := int64(m.number<<shift) >> shift
	switch {
	case bits == 64 && m.field == valueInt: // a 32-bit field: it cannot be told whether the sign was cut off
		return pipeline.IntValue(int64(m.number)), ""
	case bits == 64 || m.number>>bits == 0 || uint64(own) == m.number || m.field == valueInt && m.number <= math.MaxUint32 && int64(int32(uint32(m.number))) == own:
		return pipeline.IntValue(own), ""
	}
	return outOf()
}

// sparkplugArray writes a packed array as JSON.
func sparkplugArray(b []byte, t sparkplugType) (pipeline.Value, string) {
	out := []byte{'['}
	reason := ""
	add := func(v pipeline.Value, bad string) bool {
		if bad != "" {
			reason = bad
			return false
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		var err error
		if out, err = AppendValue(out, v); err != nil {
			reason = err.Error()
		}
		return reason == ""
	}
	switch t {
	case typeBooleanArray:
		reason = booleans(b, add)
	case typeStringArray:
		reason = texts(b, add)
	default:
		size := elementBytes(t)
		if len(b)%size != 0 {
			return pipeline.Value{}, fmt.Sprintf("%s of %d bytes, want a multiple of %d", t, len(b), size)
		}
		for ; len(b) > 0 && add(arrayElement(b[:size], t)); b = b[size:] {
		}
	}
	if reason != "" {
		return pipeline.Value{}, reason
	}
	return pipeline.JSONValue(view(append(out, ']'))), ""
}

func elementBytes(t sparkplugType) int {
	switch {
	case t <= typeInt8Array+3:
		return 1 << (t - typeInt8Array)
	case t <= typeUInt64Array:
		return 1 << (t - typeInt8Array - 4)
	case t == typeFloatArray:
		return 4
	}
	return 8
}

// arrayElement reads one number, little endian.
func arrayElement(b []byte, t sparkplugType) (pipeline.Value, string) {
	var wide [8]byte
	copy(wide[:], b)
	u := binary.LittleEndian.Uint64(wide[:])
	shift := 64 - 8*len(b)
	switch {
	case t == typeFloatArray:
		return finite(float64(math.Float32frombits(uint32(u))))
	case t == typeDoubleArray:
		return finite(math.Float64frombits(u))
	case t < typeInt8Array+4:
		return pipeline.IntValue(int64(u<<shift) >> shift), ""
	}
	return unsigned(u), ""
}

// booleans: a count of 4 bytes, little endian, then one bit each, the first in the highest bit.
func booleans(b []byte, add func(pipeline.Value, string) bool) string {
	if len(b) < 4 {
		return "BooleanArray is cut off"
	}
	n := binary.LittleEndian.Uint32(b)
	if b = b[4:]; uint64(len(b)) != (uint64(n)+7)/8 {
		return fmt.Sprintf("BooleanArray of %d values has %d bytes", n, len(b))
	}
	for i := range n {
		if !add(pipeline.BoolValue(b[i/8]>>(7-i%8)&1 == 1), "") {
			break
		}
	}
	return ""
}

// texts: each ends with a zero byte.
func texts(b []byte, add func(pipeline.Value, string) bool) string {
	for len(b) > 0 {
		text, rest, ended := bytes.Cut(b, []byte{0})
		if !ended {
			return "StringArray is cut off"
		}
		if !utf8.Valid(text) {
			return "invalid UTF-8"
		}
		if !add(pipeline.StringValue(view(text)), "") {
			break
		}
		b = rest
	}
	return ""
}
