package plan

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestProblemsAreOneSafeLineEach(t *testing.T) {
	var p Problems
	p.Add(Pos{File: "a.yaml", Line: 3, Column: 9}, "", "", "found %s", "x\x1b[31m\n\u202egpj.exe\x00")
	p.Add(Pos{File: "a.yaml", Line: 2, Column: 1}, "right", "this or that", "found wrong")
	p.Add(Pos{File: "a.yaml", Line: 2, Column: 1}, "right", "this or that", "found wrong")
	want := "a.yaml:2:1: found wrong; this or that; did you mean \"right\"?\na.yaml:3:9: found x\\x1b[31m\\n\\u202egpj.exe\\x00"
	if got := p.Err().Error(); got != want {
		t.Errorf("%q", got)
	}
	if Problems(nil).Err() != nil {
		t.Error("no problems are an error")
	}
}

func TestTextAt(t *testing.T) {
	at := Text{Value: "tämp > 8", Pos: Pos{Line: 1, Column: 10}, Verbatim: true}
	if got := at.At(6).Column; got != 15 { // ä has two bytes
		t.Errorf("column %d", got)
	}
	at.Verbatim = false
	if got := at.At(6).Column; got != 10 {
		t.Errorf("column %d", got)
	}
}

// FuzzName: what is accepted as a name is safe as one part of a path, a topic, a line of a terminal.
func FuzzName(f *testing.F) {
	for _, s := range []string{"a", "..", "a/b", "CON", "0000002", "räum", "a.b", "$x", "a\u0308", "\xff", "x\u200b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		for _, dots := range []bool{false, true} {
			if CheckName(name, dots) != "" {
				continue
			}
			if filepath.Base(name) != name || filepath.Clean(name) != name || strings.ContainsAny(name, `/\'"+#{}$ `+"\x00") || !utf8.ValidString(name) ||
				Printable(name) != name || len(name) > NameBytesMax || strings.Contains(name, "..") || !dots && strings.Contains(name, ".") {
				t.Fatalf("%q", name)
			}
		}
	})
}
