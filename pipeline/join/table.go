package join

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirstream/weir/pipeline"
)

// TableBytesMax is the largest file that a lookup takes: the table lies in memory.
const TableBytesMax = 8 << 20

// The most that a table may have besides: a cell takes 32 bytes of memory and its text, and a small file may claim many.
const (
	tableColumnsMax = 1000
	tableCellsMax   = 1 << 20
)

// Table is what a lookup looks in: the rows of a CSV or JSON file by their key. It is immutable.
type Table struct {
	Columns []string        // as in the file
	Kinds   []pipeline.Kind // of each column; Null: they differ, or there are none
	Rows    int
	// SHA256 is that of the file. It is part of the plan: another content is another revision.
	SHA256 [32]byte

	text  bool       // a CSV file: all is text, keys are compared as text
	texts [][]string // of a CSV file: the cells as written
	cells [][]pipeline.Value
	lines []int // per row, where it stands
	index map[string]int
}

// TableError tells what is wrong with a lookup's file, and where.
type TableError struct {
	Line, Column int // from 1; 0: the whole file
	Msg          string
}

func (e *TableError) Error() string {
	if e.Line == 0 {
		return e.Msg
	}
	return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Msg)
}

// Is makes every TableError an ErrTable.
func (e *TableError) Is(target error) bool { return target == ErrTable }

// Parse reads a lookup's file; the end of its name tells the format. The error is a *TableError. Every column counts: which ones are
// wanted shows later.
func Parse(name string, data []byte) (*Table, error) {
	if len(data) > TableBytesMax {
		return nil, &TableError{Msg: fmt.Sprintf("the file has %d bytes, allowed are %d", len(data), TableBytesMax)}
	}
	t := &Table{SHA256: sha256.Sum256(data)}
	var err error
	switch {
	case strings.HasSuffix(name, ".csv"):
		err = t.parseCSV(data)
	case strings.HasSuffix(name, ".json"):
		err = t.parseJSON(data)
	default:
		err = &TableError{Msg: "the file is neither .csv nor .json"}
	}
	if err != nil {
		return nil, err
	}
	t.Rows = len(t.cells)
	t.Kinds = make([]pipeline.Kind, len(t.Columns))
	for c := range t.Columns {
		t.Kinds[c] = t.kind(c)
	}
	return t, nil
}

// kind is that of every value of a column but null.
func (t *Table) kind(column int) (kind pipeline.Kind) {
	for _, row := range t.cells {
		switch k := row[column].Kind; {
		case k == pipeline.Uint && kind <= pipeline.Int: // Int stands for every exact integer
			kind = pipeline.Int
		case k == pipeline.Null || k == kind:
		case kind == pipeline.Null:
			kind = k
		default:
			return pipeline.Null
		}
	}
	return kind
}

// Textual tells that keys are compared as text: every value of a CSV file is one.
func (t *Table) Textual() bool { return t.text }

// Column gives the place of a column, -1 when there is none.
func (t *Table) Column(name string) int { return slices.Index(t.Columns, name) }

// By indexes the rows by the given columns. Two rows of one key are an error that names both lines; a row with a null in its key too.
func (t *Table) By(key []int) error {
	t.index = make(map[string]int, len(t.cells))
	var b []byte
	for i, row := range t.cells {
		b = b[:0]
		for _, c := range key {
			if row[c].IsNull() {
				return &TableError{Line: t.lines[i], Column: 1, Msg: fmt.Sprintf("the row has no %s, which is its key", t.Columns[c])}
			}
			if t.text {
				b = t.appendKey(b, pipeline.StringValue(t.texts[i][c]))
				continue
			}
			b = t.appendKey(b, row[c])
		}
		if first, twice := t.index[string(b)]; twice {
			return &TableError{Line: t.lines[i], Column: 1, Msg: fmt.Sprintf("the key of this row is that of line %d", t.lines[first])}
		}
		t.index[string(b)] = i
	}
	t.texts = nil
	return nil
}

// size refuses a table that would take too much memory.
func size(rows, columns int) error {
	switch {
	case columns > tableColumnsMax:
		return &TableError{Line: 1, Column: 1, Msg: fmt.Sprintf("the file has %d columns or more, allowed are %d", columns, tableColumnsMax)}
	case rows*columns > tableCellsMax:
		return &TableError{Line: 1, Column: 1, Msg: fmt.Sprintf("the file has %d rows of %d columns, allowed are %d cells", rows, columns, tableCellsMax)}
	}
	return nil
}

// appendKey appends a value as the index has it.
func (t *Table) appendKey(dst []byte, v pipeline.Value) []byte {
	if t.text {
		v = asText(v)
	}
	dst, err := pipeline.AppendKey(dst, v)
	if err != nil {
		panic("BUG: an error value stands in a row")
	}
	return dst
}

// asText is the shortest text of a number or bool; 1.0 is 1. Other values stay.
func asText(v pipeline.Value) pipeline.Value {
	var b [32]byte
	text := b[:0]
	switch v.Kind {
	case pipeline.Bool:
		text = strconv.AppendBool(text, v.Bool())
	case pipeline.Int:
		text = strconv.AppendInt(text, v.Int(), 10)
	case pipeline.Uint:
		text = strconv.AppendUint(text, v.Uint(), 10)
	case pipeline.Float:
		f := v.Float()
		if f == 0 {
			f = 0 // -0.0 is 0
		}
		text = strconv.AppendFloat(text, f, 'f', -1, 64)
	default:
		return v
	}
	return pipeline.StringValue(string(text))
}
