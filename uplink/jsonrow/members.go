// Package jsonrow reads the members of an encoded row where they lie: no tree, no copy of what has no escapes.
package jsonrow

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// ErrRow: the row is no JSON object, so no sink can tell its columns.
var ErrRow = errors.New("row is no JSON object")

// Members walks the members of a JSON object: f gets each name and the value as it is written. Rows are well-formed, for the sink
// encoded them or the source decoded them; what is not is an error, never a wrong cut.
func Members(row []byte, f func(name, value []byte) error) error {
	i := space(row, 0)
	if i >= len(row) || row[i] != '{' {
		return ErrRow
	}
	i = space(row, i+1)
	if i < len(row) && row[i] == '}' {
		return ending(row, i+1)
	}
	for {
		start := i
		if i = text(row, i); i < 0 {
			return ErrRow
		}
		name, err := Unquote(row[start:i])
		if err != nil {
			return err
		}
		if i = space(row, i); i >= len(row) || row[i] != ':' {
			return ErrRow
		}
		start = space(row, i+1)
		if i = value(row, start); i < 0 {
			return ErrRow
		}
		if err := f(name, row[start:i]); err != nil {
			return err
		}
		if i = space(row, i); i >= len(row) {
			return ErrRow
		}
		switch row[i] {
		case '}':
			return ending(row, i+1)
		case ',':
			i = space(row, i+1)
		default:
			return ErrRow
		}
	}
}

func ending(row []byte, i int) error {
	if space(row, i) != len(row) {
		return ErrRow
	}
	return nil
}

func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// text gives the end of the string that begins at i, -1 when none does.
func text(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	for i++; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// value gives the end of the value that begins at i, -1 when none does.
func value(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return text(b, i)
	case '{', '[':
		return container(b, i)
	}
	start := i
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	if !json.Valid(b[start:i]) {
		return -1
	}
	return i
}

func container(b []byte, i int) int {
	for depth := 0; i < len(b); {
		switch b[i] {
		case '"':
			if i = text(b, i); i < 0 {
				return -1
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return -1
}

// Unquote gives the text of a JSON string. Without escapes it is a part of the row.
func Unquote(quoted []byte) ([]byte, error) {
	if !utf8.Valid(quoted) {
		return nil, ErrRow
	}
	if bytes.IndexByte(quoted, '\\') < 0 {
		return quoted[1 : len(quoted)-1], nil
	}
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return nil, ErrRow
	}
	return []byte(s), nil
}
