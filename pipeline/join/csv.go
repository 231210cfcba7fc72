package join

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/weirstream/weir/pipeline"
)

// parseCSV reads RFC 4180: a header, then rows of as many cells. An empty cell is null. Columns of which every cell is a whole number, a
// number, or true and false, are such; all others are text. A number is one when it is written as a program would: 007 is text.
func (t *Table) parseCSV(data []byte) error {
	t.text = true
	data = bytes.TrimPrefix(data, byteOrderMark)
	if at := notUTF8(data); at >= 0 {
		return placed(data, at, "the file is not UTF-8")
	}
	r := csv.NewReader(bytes.NewReader(data))
	header, err := r.Read()
	if errors.Is(err, io.EOF) {
		return &TableError{Line: 1, Column: 1, Msg: "the file has no header"}
	}
	if err != nil {
		return csvError(err)
	}
	if err := size(0, len(header)); err != nil {
		return err
	}
	if err := t.header(header); err != nil {
		return err
	}
	var cells [][]string
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return csvError(err)
		}
		line, _ := r.FieldPos(0)
		cells, t.lines = append(cells, row), append(t.lines, line)
	}
	if err := size(len(cells), len(header)); err != nil {
		return err
	}
	t.cells = make([][]pipeline.Value, len(cells))
	for i := range cells {
		t.cells[i] = make([]pipeline.Value, len(header))
	}
	for c := range header {
		read := textCell
		for _, typed := range []func(string) (pipeline.Value, bool){intCell, floatCell, boolCell} {
			if fits(cells, c, typed) {
				read = typed
				break
			}
		}
		for i, row := range cells {
			if row[c] != "" {
				t.cells[i][c], _ = read(row[c])
			}
		}
	}
	t.texts = cells // keys are compared as text
	return nil
}

func (t *Table) header(names []string) error {
	for i, name := range names {
		if name == "" {
			return &TableError{Line: 1, Column: 1, Msg: fmt.Sprintf("column %d has no name", i+1)}
		}
		if t.Column(name) >= 0 {
			return &TableError{Line: 1, Column: 1, Msg: fmt.Sprintf("two columns have the name %q", name)}
		}
		t.Columns = append(t.Columns, name)
	}
	return nil
}

func csvError(err error) error {
	var p *csv.ParseError
	if errors.As(err, &p) {
		return &TableError{Line: p.Line, Column: max(p.Column, 1), Msg: p.Err.Error()}
	}
	return &TableError{Msg: err.Error()}
}

// fits tells whether every cell of a column that is not empty is of a type, and that there is one.
func fits(cells [][]string, c int, read func(string) (pipeline.Value, bool)) (some bool) {
	for _, row := range cells {
		if row[c] == "" {
			continue
		}
		if _, ok := read(row[c]); !ok {
			return false
		}
		some = true
	}
	return some
}

func textCell(s string) (pipeline.Value, bool) { return pipeline.StringValue(s), true }

func intCell(s string) (pipeline.Value, bool) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil && strconv.FormatInt(i, 10) == s {
		return pipeline.IntValue(i), true
	}
	if u, err := strconv.ParseUint(s, 10, 64); err == nil && strconv.FormatUint(u, 10) == s {
		return pipeline.UintValue(u), true
	}
	return pipeline.Value{}, false
}

func floatCell(s string) (pipeline.Value, bool) {
	if digits := len(s) > 1 && s[0] == '0' && s[1] != '.'; digits || s[0] == '+' {
		return pipeline.Value{}, false
	}
	for _, c := range s {
		if (c < '0' || c > '9') && c != '.' && c != '-' && c != '+' && c != 'e' && c != 'E' {
			return pipeline.Value{}, false // NaN, hexadecimal, underscores
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	return pipeline.FloatValue(f), err == nil
}

func boolCell(s string) (pipeline.Value, bool) {
	return pipeline.BoolValue(s == "true"), s == "true" || s == "false"
}
