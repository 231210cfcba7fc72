package influx

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/jsonrow"
)

// Line protocol, version 2 of its grammar. Source: docs.influxdata.com/influxdb/v2/reference/syntax/line-protocol. A line is
// measurement,tag=value,… field=value,… nanoseconds.

// The server's range of times.
const timeMin, timeMax = math.MinInt64 + 2, math.MaxInt64 - 1

// appendLine appends the point of a result. The error says why the result can be none; it is for this one alone.
func (s *Sink) appendLine(dst []byte, b *uplink.Batch, r *pipeline.Result) ([]byte, error) {
	for i := range s.values {
		s.values[i] = nil
	}
	var when []byte
	err := jsonrow.Members(r.Payload, func(name, raw []byte) error {
		for _, i := range s.byField[string(name)] {
			s.values[i] = raw
		}
		if string(name) == s.config.Time {
			when = raw
		}
		return nil
	})
	if err != nil {
		return dst, err
	}
	at, err := s.timeOf(r, when)
	if err != nil {
		return dst, err
	}
	dst = append(dst, s.measurement...)
	for i := range s.config.Columns { // tags are before the fields
		c := &s.config.Columns[i]
		if !c.Tag {
			continue
		}
		if dst, err = s.appendTag(dst, i, s.value(i, b, r)); err != nil {
			return dst, err
		}
	}
	sep := byte(' ')
	for i := range s.config.Columns {
		c := &s.config.Columns[i]
		raw := s.value(i, b, r)
		if c.Tag || len(raw) == 0 || raw[0] == 'n' { // null: no field
			continue
		}
		dst = append(append(append(dst, sep), s.names[i]...), '=')
		if dst, err = s.appendField(dst, c, raw); err != nil {
			return dst, err
		}
		sep = ','
	}
	if sep == ' ' {
		return dst, errors.New("the row has none of the fields")
	}
	return append(strconv.AppendInt(append(dst, ' '), at, 10), '\n'), nil
}

// value gives a column's value as JSON.
func (s *Sink) value(i int, b *uplink.Batch, r *pipeline.Result) []byte {
	switch s.config.Columns[i].From {
	case FromSeq:
		return strconv.AppendUint(nil, r.Seq, 10)
	case FromGeneration:
		return strconv.AppendUint(nil, b.Generation, 10)
	case FromTime:
		if r.Time == pipeline.NoTime {
			return nil
		}
		return strconv.AppendInt(nil, r.Time, 10)
	case FromStream:
		return s.streamText
	case FromGateway:
		return s.gatewayText
	case FromRow:
		return r.Payload
	}
	return s.values[i]
}

// timeOf gives the point's nanoseconds.
func (s *Sink) timeOf(r *pipeline.Result, raw []byte) (int64, error) {
	n, unit := r.Time, time.Millisecond
	if s.config.Time != FromTime {
		var err error
		unit = s.config.TimeUnit
		if n, err = strconv.ParseInt(string(raw), 10, 64); err != nil {
			return 0, fmt.Errorf("the row has no whole number in its time column %s: %.40q", s.config.Time, raw)
		}
	} else if n == pipeline.NoTime {
		return 0, errors.New("the row has no event time")
	}
	if n > timeMax/int64(unit) || n < timeMin/int64(unit) {
		return 0, fmt.Errorf("the time %d is out of the server's range", n)
	}
	n *= int64(unit)
	if s.config.Distinct && !s.plant.indistinct {
		n += int64(r.Seq % uint64(time.Millisecond))
		if n > timeMax {
			return 0, fmt.Errorf("the time %d is out of the server's range", n)
		}
	}
	return n, nil
}

// appendTag appends a tag. One without a value is left out: the server takes no empty ones.
func (s *Sink) appendTag(dst []byte, i int, raw []byte) ([]byte, error) {
	if len(raw) == 0 || raw[0] == 'n' {
		return dst, nil
	}
	text := raw
	if raw[0] == '"' {
		var err error
		if text, err = jsonrow.Unquote(raw); err != nil {
			return dst, err
		}
	}
	switch {
	case len(text) == 0:
		return dst, nil
	case raw[0] == '{' || raw[0] == '[':
		return dst, fmt.Errorf("tag %s is no single value", s.config.Columns[i].Name)
	case bytes.ContainsFunc(text, func(r rune) bool { return r < ' ' }):
		return dst, fmt.Errorf("tag %s holds a control character, which line protocol cannot say", s.config.Columns[i].Name)
	case text[len(text)-1] == '\\':
		return dst, fmt.Errorf("tag %s ends with a backslash, which line protocol cannot say", s.config.Columns[i].Name)
	}
	dst = append(append(append(dst, ','), s.names[i]...), '=')
	return appendKey(dst, text, s.plant.unescaped), nil
}

// appendField appends a value in the type of its column: a field never changes its type, for the server refuses what differs from the first one.
func (s *Sink) appendField(dst []byte, c *Column, raw []byte) ([]byte, error) {
	number := raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9'
	kind := c.Kind
	switch c.From {
	case FromSeq, FromGeneration:
		kind = pipeline.Uint
	case FromRow:
		return appendString(dst, raw), nil
	}
	if kind == pipeline.Uint && s.config.SignedOnly {
		kind = pipeline.Int
	}
	switch {
	case number && kind == pipeline.Int:
		if _, err := strconv.ParseInt(string(raw), 10, 64); err != nil {
			return dst, fmt.Errorf("field %s takes whole numbers up to 9223372036854775807, the row holds %.40s", c.Name, raw)
		}
		return append(append(dst, raw...), 'i'), nil
	case number && kind == pipeline.Uint:
		if _, err := strconv.ParseUint(string(raw), 10, 64); err != nil {
			return dst, fmt.Errorf("field %s takes whole numbers from 0, the row holds %.40s", c.Name, raw)
		}
		return append(append(dst, raw...), 'u'), nil
	case number && (kind == pipeline.Float || kind == pipeline.Null || kind == pipeline.JSON):
		return appendFloat(dst, c, raw)
	case raw[0] == '"':
		text, err := jsonrow.Unquote(raw)
		if err != nil {
			return dst, err
		}
		return appendString(dst, text), nil
	case kind == pipeline.Int || kind == pipeline.Uint || kind == pipeline.Float || kind == pipeline.Bool && number:
		return dst, fmt.Errorf("field %s takes %s, the row holds %.40s", c.Name, kind, raw)
	case raw[0] == 't' || raw[0] == 'f':
		return append(dst, raw...), nil
	}
	return appendString(dst, raw), nil // an object or array as its JSON text
}

// appendFloat writes a number as a float. An integer that a float cannot hold is refused, not rounded.
func appendFloat(dst []byte, c *Column, raw []byte) ([]byte, error) {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return dst, fmt.Errorf("field %s takes finite numbers, the row holds %.40s", c.Name, raw)
	}
	if n, err := strconv.ParseInt(string(raw), 10, 64); c.Kind != pipeline.Float && (err == nil && int64(f) != n || err != nil && !bytes.ContainsAny(raw, ".eE")) {
		return dst, fmt.Errorf("field %s is written as a float, which cannot hold %.40s exactly", c.Name, raw)
	}
	return append(dst, raw...), nil
}

// appendKey escapes keys and values of tags, and keys of fields.
func appendKey[T string | []byte](dst []byte, text T, plain bool) []byte {
	for i := range len(text) {
		if b := text[i]; (b == ',' || b == '=' || b == ' ') && !plain {
			dst = append(dst, '\\')
		}
		dst = append(dst, text[i])
	}
	return dst
}

// appendMeasurement escapes a measurement: an equals sign stands in it as it is.
func appendMeasurement(dst []byte, name string) []byte {
	for i := range len(name) {
		if b := name[i]; b == ',' || b == ' ' {
			dst = append(dst, '\\')
		}
		dst = append(dst, name[i])
	}
	return dst
}

// appendString writes a text field; it may hold line breaks.
func appendString(dst, text []byte) []byte {
	dst = append(dst, '"')
	for _, b := range text {
		if b == '"' || b == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, b)
	}
	return append(dst, '"')
}
