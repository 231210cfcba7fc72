package pipeline

import (
	"math"
	"strconv"
)

// Kind is the type of a Value.
type Kind uint8

// The kinds. Null is the zero Value: a missing field and a JSON null are the same.
const (
	Null Kind = iota
	Bool
	Int    // int64, exact
	Uint   // uint64 above MaxInt64 only; smaller ones are Int
	Float  // float64, never NaN nor infinite
	String // UTF-8 text
	Bytes  // opaque
	JSON   // one well-formed JSON value as text (objects, arrays, passed-through numbers)
	Error  // a failed computation; Str says why. It never leaves: the row becomes a dead letter.
)

// Value is one field. Str may alias a journal block, which is immutable and kept alive by the reference.
type Value struct {
	Num  uint64 // Bool: 0 or 1; Int: two's complement; Uint; Float: IEEE bits
	Str  string // String, Bytes, JSON, Error
	Kind Kind
}

// The constructors. FloatValue turns NaN and infinities into an Error: they never enter a row.
func BoolValue(b bool) Value {
	if b {
		return Value{Kind: Bool, Num: 1}
	}
	return Value{Kind: Bool}
}
func IntValue(i int64) Value { return Value{Kind: Int, Num: uint64(i)} }

// UintValue gives an Int when u fits one, so that equal numbers have one form.
func UintValue(u uint64) Value {
	if u <= math.MaxInt64 {
		return Value{Kind: Int, Num: u}
	}
	return Value{Kind: Uint, Num: u}
}
func FloatValue(f float64) Value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return ErrorValue("result is not a finite number")
	}
	return Value{Kind: Float, Num: math.Float64bits(f)}
}
func StringValue(s string) Value { return Value{Kind: String, Str: s} }
func BytesValue(s string) Value  { return Value{Kind: Bytes, Str: s} }

// JSONValue takes text that the caller has verified to be exactly one JSON value.
func JSONValue(s string) Value       { return Value{Kind: JSON, Str: s} }
func ErrorValue(reason string) Value { return Value{Kind: Error, Str: reason} }

func (v Value) IsNull() bool   { return v.Kind == Null }
func (v Value) Bool() bool     { return v.Num != 0 }
func (v Value) Int() int64     { return int64(v.Num) }
func (v Value) Uint() uint64   { return v.Num }
func (v Value) Float() float64 { return math.Float64frombits(v.Num) }

// IsNumber tells Int, Uint and Float.
func (v Value) IsNumber() bool { return v.Kind == Int || v.Kind == Uint || v.Kind == Float }

// AsFloat converts a number; ok is false for every other kind. Integers beyond 2^53 are rounded to nearest.
func (v Value) AsFloat() (f float64, ok bool) {
	switch v.Kind {
	case Int:
		return float64(int64(v.Num)), true
	case Uint:
		return float64(v.Num), true
	case Float:
		return v.Float(), true
	}
	return 0, false
}

var kindNames = [...]string{"null", "bool", "int", "uint", "float", "string", "bytes", "json", "error"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}
