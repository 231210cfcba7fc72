package plan

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Pos is a place in a config file. Line and Column count from 1, columns in characters; the zero Pos is "nowhere".
type Pos struct {
	File         string
	Line, Column int
}

func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Text is a value of a config file with the place where it stands.
type Text struct {
	Value string
	Pos   Pos
	// Verbatim says that the characters of Value stand at Pos one after the other (no escapes, no folding), so that a place
	// inside of Value has a place in the file.
	Verbatim bool
}

func (t Text) String() string { return t.Value }

// At is the place of the byte at offset of Value, or of Value itself when that cannot be told.
func (t Text) At(offset int) Pos {
	p := t.Pos
	if t.Verbatim && offset >= 0 && offset <= len(t.Value) {
		p.Column += len([]rune(t.Value[:offset]))
	}
	return p
}

// Problem is one thing wrong with a config, for an operator: what was found, what is allowed, what was probably meant.
type Problem struct {
	Pos     Pos
	Found   string
	Allowed string // "" when Found says it all
	Suggest string // the nearest right name, "" for none
}

func (p Problem) String() string {
	var b strings.Builder
	if at := p.Pos.String(); at != "" {
		b.WriteString(at + ": ")
	}
	b.WriteString(p.Found)
	if p.Allowed != "" {
		b.WriteString("; " + p.Allowed)
	}
	if p.Suggest != "" {
		b.WriteString("; did you mean " + strconv.Quote(p.Suggest) + "?")
	}
	return Printable(b.String())
}

// Printable escapes what a terminal would act on: control characters, line breaks, directions of writing. What operators
// read is made of files that others may have written.
func Printable(s string) string {
	plain := func(r rune) bool {
		return r == ' ' || unicode.IsGraphic(r) && !unicode.IsSpace(r) && r != utf8.RuneError
	}
	if strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if plain(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// Problems is every problem of a config. As an error it prints one per line, in the order of the file.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].String()
	}
	return strings.Join(lines, "\n")
}

// Add appends a problem whose text is formatted.
func (p *Problems) Add(at Pos, suggest, allowed, found string, args ...any) {
	*p = append(*p, Problem{Pos: at, Found: fmt.Sprintf(found, args...), Allowed: allowed, Suggest: suggest})
}

// Sorted gives the problems in the order of the file, each once.
func (p Problems) Sorted() Problems {
	out := slices.Clone(p)
	sort.SliceStable(out, func(i, j int) bool {
		a, b := &out[i].Pos, &out[j].Pos
		switch {
		case a.File != b.File:
			return a.File < b.File
		case a.Line != b.Line:
			return a.Line < b.Line
		}
		return a.Column < b.Column
	})
	return slices.Compact(out)
}

// Err gives the problems as an error, nil when there are none.
func (p Problems) Err() error {
	if len(p) == 0 {
		return nil
	}
	return p.Sorted()
}
