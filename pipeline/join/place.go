package join

import (
	"bytes"
	"unicode/utf8"
)

// byteOrderMark may stand at the very start of a file, as spreadsheets and editors write it. It is no part of the first line.
var byteOrderMark = []byte("\xEF\xBB\xBF")

// placed is what is wrong at a byte of a file, with the line and the column in characters.
func placed(data []byte, offset int, msg string) *TableError {
	before := data[:min(offset, len(data))]
	line := bytes.Count(before, []byte("\n")) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return &TableError{Line: line, Column: column, Msg: msg}
}

// notUTF8 is the first byte that begins no character, -1 for none.
func notUTF8(data []byte) int {
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}
