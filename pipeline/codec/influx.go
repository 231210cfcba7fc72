package codec

import (
	"errors"
	"strings"

	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"github.com/weirstream/weir/pipeline"
)

// The names of what a line has besides its tags and fields.
const (
	MeasurementField = "measurement"
	TimestampField   = "timestamp"
)

// influxDecoder reads InfluxDB line protocol.
type influxDecoder struct{ *flat }

// NewInflux makes a decoder for InfluxDB line protocol, version 2 of its grammar. A payload may have several lines; Decode takes one.
// Fields are `measurement`, the tags (text) and fields by their keys, and `timestamp` as the integer that stands there (null when there is
// none). whole is all of it as a JSON object.
func NewInflux(fields []Field, whole int, _ Limits) Splitter {
	return influxDecoder{newFlat(fields, whole)}
}

func (d influxDecoder) Next(payload []byte) (record, rest []byte) { return nextLine(payload, "#") }

func (d influxDecoder) Decode(line []byte, slots []pipeline.Value) error {
	d.begin(slots)
	in := lineprotocol.NewDecoderWithBytes(line)
	if !in.Next() {
		return influxError("the line is empty", in.Err())
	}
	measurement, err := in.Measurement()
	if err != nil {
		return influxError("measurement", err)
	}
	if err := d.text(MeasurementField, measurement); err != nil {
		return err
	}
	for {
		key, value, err := in.NextTag()
		if err != nil {
			return influxError("tag", err)
		}
		if key == nil {
			break
		}
		if err := d.text(string(key), value); err != nil {
			return err
		}
	}
	for {
		key, kind, value, err := in.NextFieldBytes()
		if err != nil {
			return influxError("field", err)
		}
		if key == nil {
			break
		}
		if err := d.field(string(key), kind, value); err != nil {
			return err
		}
	}
	stamp, err := in.TimeBytes()
	if err != nil {
		return influxError("timestamp", err)
	}
	if len(stamp) > 0 {
		v, reason := ParseNumber(string(stamp), pipeline.Int)
		if reason != "" {
			return &Error{Reason: reason, Offset: -1, Field: TimestampField}
		}
		if err := d.put(TimestampField, v, func(k pipeline.Kind) (pipeline.Value, string) { return as(v, k) }); err != nil {
			return err
		}
	}
	if in.Next() {
		return &Error{Reason: "data behind the end of the line", Offset: -1}
	}
	if err := in.Err(); err != nil {
		return influxError("the end of the line", err)
	}
	d.end()
	return nil
}

func influxError(where string, err error) error {
	var at *lineprotocol.DecodeError
	switch {
	case err == nil:
		return &Error{Reason: where, Offset: -1}
	case errors.As(err, &at):
		return &Error{Reason: where + ": " + at.Err.Error(), Offset: at.Column - 1}
	}
	return &Error{Reason: where + ": " + err.Error(), Offset: -1}
}

// text stores a measurement or a tag: always text, read as a number or bool only where one is declared.
func (d influxDecoder) text(name string, value []byte) error {
	text := string(value) // the library may have unescaped it into memory of its own
	return d.put(name, pipeline.StringValue(text), func(k pipeline.Kind) (pipeline.Value, string) { return textValue(bytesOf(text), k) })
}

func (d influxDecoder) field(name string, kind lineprotocol.ValueKind, raw []byte) error {
	var v pipeline.Value
	var reason string
	switch kind {
	case lineprotocol.String:
		v = pipeline.StringValue(string(raw))
	case lineprotocol.Bool:
		v = pipeline.BoolValue(raw[0] == 't' || raw[0] == 'T')
	case lineprotocol.Int:
		if v, reason = ParseNumber(string(raw), pipeline.Int); reason == "" && v.Kind != pipeline.Int {
			reason = "integer out of range: want -2^63 to 2^63-1, or the suffix u"
		}
	case lineprotocol.Uint:
		v, reason = ParseNumber(string(raw), pipeline.Uint)
	default:
		v, reason = influxFloat(string(raw))
	}
	if reason != "" {
		return &Error{Reason: reason, Offset: -1, Field: name}
	}
	return d.put(name, v, func(k pipeline.Kind) (pipeline.Value, string) { return as(v, k) })
}

// influxFloat reads what JSON's grammar lacks and line protocol has: a leading zero or point, a point without digits behind it.
func influxFloat(text string) (pipeline.Value, string) {
	sign := ""
	if rest, minus := strings.CutPrefix(text, "-"); minus {
		sign, text = "-", rest
	}
	if strings.HasPrefix(text, ".") {
		text = "0" + text
	}
	whole, part, pointed := strings.Cut(text, ".")
	if pointed && (part == "" || part[0] == 'e' || part[0] == 'E') {
		text = whole + part
	}
	for len(text) > 1 && text[0] == '0' && text[1] >= '0' && text[1] <= '9' {
		text = text[1:]
	}
	return ParseNumber(sign+text, pipeline.Float)
}
