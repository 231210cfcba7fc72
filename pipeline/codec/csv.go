package codec

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/weirstream/weir/pipeline"
)

// csvDecoder reads lines of comma-separated values.
type csvDecoder struct {
	*flat
	columns   []string
	separator rune
}

// NewCSV makes a decoder for CSV (RFC 4180) whose columns have the given names, in order. A payload may have several lines; Decode takes
// one. A value is read as its declared type; without one it is a number when it is written as JSON writes numbers, true or false,
// null when it is empty, and text else. Quoted values are text. whole is the line as a JSON object. A line with another number of values is
// refused; white space around a number is allowed.
func NewCSV(fields []Field, whole int, columns []string, separator rune, _ Limits) Splitter {
	return &csvDecoder{flat: newFlat(fields, whole), columns: columns, separator: separator}
}

// Next cuts a line off; a quoted value may hold a line break.
func (d *csvDecoder) Next(payload []byte) (record, rest []byte) {
	for len(payload) > 0 {
		end, quoted, opens := len(payload), false, true // opens: a quote here begins a quoted value, or goes on with it
		for i, c := range payload {
			if c == '\n' && !quoted {
				end = i
				break
			}
			switch {
			case c == '"' && quoted:
				quoted, opens = false, true // the end, or the first half of a doubled quote
			case c == '"' && opens:
				quoted = true
			default:
				opens = rune(c) == d.separator
			}
		}
		record, payload = payload[:end], payload[min(end+1, len(payload)):]
		if len(bytes.TrimSpace(record)) > 0 {
			return record, payload
		}
	}
	return nil, nil
}

func (d *csvDecoder) Decode(line []byte, slots []pipeline.Value) error {
	d.begin(slots)
	if !utf8.Valid(line) {
		return &Error{Reason: "invalid UTF-8", Offset: invalidUTF8(line)}
	}
	in := csv.NewReader(bytes.NewReader(line))
	in.Comma, in.FieldsPerRecord = d.separator, -1
	values, err := in.Read()
	if err != nil {
		var parse *csv.ParseError
		if errors.As(err, &parse) {
			return &Error{Reason: parse.Err.Error(), Offset: parse.Column - 1}
		}
		return &Error{Reason: err.Error(), Offset: -1}
	}
	if len(values) != len(d.columns) {
		return &Error{Reason: fmt.Sprintf("want %d values (%s), found %d", len(d.columns), strings.Join(d.columns, ", "), len(values)), Offset: -1}
	}
	for i, text := range values {
		if err := d.value(d.columns[i], text, line[offset(line, in, i)] == '"'); err != nil {
			return err
		}
	}
	if in.InputOffset() < int64(len(bytes.TrimRight(line, "\r\n"))) {
		return &Error{Reason: "data behind the end of the line", Offset: int(in.InputOffset())}
	}
	d.end()
	return nil
}

// offset of the i-th value. An empty value at the end of the line gives that of the character before it, a separator.
func offset(line []byte, in *csv.Reader, i int) int {
	row, column := in.FieldPos(i)
	start := 0
	for ; row > 1; row-- {
		start += bytes.IndexByte(line[start:], '\n') + 1
	}
	return min(start+column-1, len(line)-1)
}

func (d *csvDecoder) value(name, text string, quoted bool) error {
	value := pipeline.StringValue(text)
	if !quoted {
		switch trimmed := strings.TrimSpace(text); trimmed {
		case "":
			value = pipeline.Value{}
		case "true", "false":
			value = pipeline.BoolValue(trimmed == "true")
		default:
			if v, reason := ParseNumber(trimmed, pipeline.Null); reason == "" {
				value = v
			}
		}
	}
	return d.put(name, value, func(k pipeline.Kind) (pipeline.Value, string) { return textValue(bytesOf(text), k) })
}
