package join

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirstream/weir/pipeline"
)

// parseJSON reads an array of objects. A member that an object lacks is null there; objects and arrays within are kept as JSON.
func (t *Table) parseJSON(data []byte) error {
	at := func(offset int64, msg string, args ...any) error {
		before := data[:min(int(offset), len(data))]
		line := bytes.Count(before, []byte("\n")) + 1
		column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
		return &TableError{Line: line, Column: column, Msg: fmt.Sprintf(msg, args...)}
	}
	if !utf8.Valid(data) {
		return at(0, "the file is not UTF-8")
	}
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil {
		var syntax *json.SyntaxError
		if !errors.As(err, &syntax) {
			return at(0, "%s", err)
		}
		if syntax.Offset >= int64(len(data)) && strings.Contains(err.Error(), "unexpected end") {
			return at(int64(len(data)), "the file ends too early")
		}
		return at(syntax.Offset-1, "%s", err)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	wrong := func(err error) error { return at(d.InputOffset(), "%s", err) }
	open, err := d.Token()
	if err != nil {
		return wrong(err)
	}
	if open != json.Delim('[') {
		return at(0, "the file is not an array of objects")
	}
	var rows []map[string]pipeline.Value
	line, counted := 1, int64(0) // of the row; up to which byte
	for d.More() {
		begin := skipSpace(data, d.InputOffset())
		line += bytes.Count(data[counted:begin], []byte("\n"))
		counted = begin
		if token, err := d.Token(); err != nil {
			return wrong(err)
		} else if token != json.Delim('{') {
			return at(begin, "row %d is no object", len(rows)+1)
		}
		row := map[string]pipeline.Value{}
		for d.More() {
			place := skipSpace(data, d.InputOffset())
			name, err := d.Token()
			if err != nil {
				return wrong(err)
			}
			var raw json.RawMessage
			if err := d.Decode(&raw); err != nil {
				return wrong(err)
			}
			key := name.(string) // a member's name is one, or Token fails
			if _, twice := row[key]; twice {
				return at(place, "%q stands twice in one object", key)
			}
			if !slices.Contains(t.Columns, key) {
				t.Columns = append(t.Columns, key)
				if err := size(0, len(t.Columns)); err != nil {
					return err
				}
			}
			if row[key], err = member(raw); err != nil {
				return at(place, "%q: %s", key, err)
			}
		}
		if _, err := d.Token(); err != nil {
			return wrong(err)
		}
		rows, t.lines = append(rows, row), append(t.lines, line)
	}
	if _, err := d.Token(); err != nil {
		return wrong(err)
	}
	if err := size(len(rows), len(t.Columns)); err != nil {
		return err
	}
	for _, row := range rows {
		cells := make([]pipeline.Value, len(t.Columns))
		for c, name := range t.Columns {
			cells[c] = row[name]
		}
		t.cells = append(t.cells, cells)
	}
	return nil
}

// skipSpace goes to the next byte that begins a value or a name.
func skipSpace(data []byte, offset int64) int64 {
	for offset < int64(len(data)) && bytes.IndexByte([]byte(" \t\r\n,:"), data[offset]) >= 0 {
		offset++
	}
	return offset
}

// member gives a value of the file: numbers exact.
func member(raw json.RawMessage) (pipeline.Value, error) {
	text := string(raw)
	switch text[0] {
	case 'n':
		return pipeline.Value{}, nil
	case 't', 'f':
		return pipeline.BoolValue(text == "true"), nil
	case '"':
		var s string
		err := json.Unmarshal(raw, &s)
		return pipeline.StringValue(s), err
	case '{', '[':
		return pipeline.JSONValue(text), nil
	}
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return pipeline.IntValue(i), nil
	}
	if u, err := strconv.ParseUint(text, 10, 64); err == nil {
		return pipeline.UintValue(u), nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return pipeline.Value{}, fmt.Errorf("the number %s is out of range", text)
	}
	return pipeline.FloatValue(f), nil
}
