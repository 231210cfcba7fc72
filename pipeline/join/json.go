package join

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirstream/weir/pipeline"
)

// jsonFile is a file while it is read.
type jsonFile struct {
	data []byte
	d    *json.Decoder
	t    *Table
	rows []map[string]pipeline.Value
}

// at is an error at a byte of the file.
func (f *jsonFile) at(offset int64, msg string, args ...any) error {
	return placed(f.data, int(offset), fmt.Sprintf(msg, args...))
}

// parseJSON reads an array of objects. A member that an object lacks is null there; objects and arrays within are kept as JSON.
func (t *Table) parseJSON(data []byte) error {
	data = bytes.TrimPrefix(data, byteOrderMark)
	f := &jsonFile{data: data, d: json.NewDecoder(bytes.NewReader(data)), t: t}
	if err := f.wellFormed(); err != nil {
		return err
	}
	f.d.UseNumber()
	if open, err := f.d.Token(); err != nil || open != json.Delim('[') {
		return f.at(0, "the file is not an array of objects")
	}
	line, counted := 1, int64(0) // of the row; up to which byte
	for f.d.More() {
		begin := skipSpace(data, f.d.InputOffset())
		line += bytes.Count(data[counted:begin], []byte("\n"))
		counted = begin
		if err := f.row(begin); err != nil {
			return err
		}
		t.lines = append(t.lines, line)
	}
	if err := size(len(f.rows), len(t.Columns)); err != nil {
		return err
	}
	for _, row := range f.rows {
		cells := make([]pipeline.Value, len(t.Columns))
		for c, name := range t.Columns {
			cells[c] = row[name]
		}
		t.cells = append(t.cells, cells)
	}
	return nil
}

// wellFormed finds what is no JSON, wherever it stands.
func (f *jsonFile) wellFormed() error {
	if at := notUTF8(f.data); at >= 0 {
		return f.at(int64(at), "the file is not UTF-8")
	}
	var whole json.RawMessage
	err := json.Unmarshal(f.data, &whole)
	var syntax *json.SyntaxError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &syntax):
		return f.at(0, "%s", err)
	case syntax.Offset >= int64(len(f.data)) && strings.Contains(err.Error(), "unexpected end"):
		return f.at(int64(len(f.data)), "the file ends too early")
	}
	return f.at(syntax.Offset-1, "%s", err)
}

// row reads the object that begins at a byte.
func (f *jsonFile) row(begin int64) error {
	if token, err := f.d.Token(); err != nil || token != json.Delim('{') {
		return f.at(begin, "row %d is no object", len(f.rows)+1)
	}
	row := map[string]pipeline.Value{}
	for f.d.More() {
		place := skipSpace(f.data, f.d.InputOffset())
		name, err := f.d.Token()
		if err != nil {
			return f.at(place, "%s", err)
		}
		var raw json.RawMessage
		if err := f.d.Decode(&raw); err != nil {
			return f.at(place, "%s", err)
		}
		key := name.(string) // a member's name is one, or Token fails
		if _, twice := row[key]; twice {
			return f.at(place, "%q stands twice in one object", key)
		}
		if !slices.Contains(f.t.Columns, key) {
			f.t.Columns = append(f.t.Columns, key)
			if err := size(0, len(f.t.Columns)); err != nil {
				return err
			}
		}
		if row[key], err = member(raw); err != nil {
			return f.at(place, "%q: %s", key, err)
		}
	}
	if _, err := f.d.Token(); err != nil {
		return f.at(begin, "%s", err)
	}
	f.rows = append(f.rows, row)
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
