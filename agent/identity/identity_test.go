package identity

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink"
)

// files is a board's file system.
type files map[string]string

func (f files) read(path string) ([]byte, error) {
	if text, ok := f[path]; ok {
		return []byte(text), nil
	}
	return nil, fs.ErrPermission
}

const (
	tree    = "/sys/firmware/devicetree/base/serial-number"
	dmi     = "/sys/class/dmi/id/product_uuid"
	machine = "/etc/machine-id"
)

func TestRule28_BoardsAreComparedByTheSurestNameThatBothHave(t *testing.T) {
	card := "0123456789abcdef0123456789abcdef"
	pi := ReadBoard("", files{tree: "10000000aabbccdd\x00", machine: card}.read)
	other := ReadBoard("", files{tree: "10000000eeff0011\x00", machine: card}.read)
	root := ReadBoard("", files{dmi: "4c4c4544-0042-3510-8052-b4c04f4d4d32\n", machine: card}.read)
	user := ReadBoard("", files{machine: card}.read)
	set := ReadBoard("rack-7", files{tree: "10000000aabbccdd\x00"}.read)
	for i, c := range []struct {
		a, b Board
		want Verdict
	}{
		{pi, pi, Same}, {pi, other, Other}, {root, user, Same}, {pi, user, Same}, {pi, nil, Unknown}, {nil, nil, Unknown}, {set, set, Same}, {set, pi, Unknown},
		{ReadBoard("a", nil), ReadBoard("b", nil), Other},
	} {
		if got := c.a.Compare(c.b); got != c.want {
			t.Errorf("case %d: %v and %v: %d, want %d", i, c.a, c.b, got, c.want)
		}
	}
	for _, text := range []string{"", "0000000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "To be filled by O.E.M.", "03000200-0400-0500-0006-000700080009", "none"} {
		if b := ReadBoard("", files{tree: text, dmi: text}.read); len(b) > 0 {
			t.Errorf("%q names a board: %v", text, b)
		}
	}
}

func TestDecide(t *testing.T) {
	a, b := Board{"devicetree:a"}, Board{"devicetree:b"}
	r := First(a, false)
	for i, c := range []struct {
		f    Facts
		want Action
		err  error
	}{
		{Facts{Board: a}, Begin, nil},
		{Facts{Record: r, Board: a}, Keep, nil},
		{Facts{Record: r, Board: a, NewBoard: true}, Keep, nil},
		{Facts{Record: r, Board: b}, Keep, ErrOtherBoard},
		{Facts{Record: r, Board: b, NewBoard: true}, NewMajor, nil},
		{Facts{Record: r, Board: b, Central: true}, NewMajor, nil},
		{Facts{Record: r}, Trust, nil},
		{Facts{Record: First(nil, false), Board: b}, Trust, nil},
		{Facts{Record: First(Board{"set:x"}, false), Board: b}, Keep, ErrOtherBoard},
	} {
		got, err := Decide(c.f)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("case %d: %d, %v, want %d, %v", i, got, err, c.want, c.err)
		}
	}
}

func TestRule25_LineageAndGenerationsOfANewMajor(t *testing.T) {
	r := First(Board{"devicetree:a"}, true)
	if r.Incarnation() != (uplink.Incarnation{Major: 1, Minor: 1}) || len(r.Lineage) != 2 {
		t.Fatalf("%+v", r)
	}
	n := r.Successor(Board{"devicetree:b"}, 7)
	if n.Token != "devicetree:b" || len(n.Lineage) != 3 || n.Lineage[2] != n.Incarnation() || len(r.Lineage) != 2 {
		t.Fatalf("%+v of %+v", n, r)
	}
	for range 100 {
		n = n.Successor(Board{"devicetree:b"}, n.Major+1)
	}
	if len(n.Lineage) != lineageMax || n.Lineage[lineageMax-1] != n.Incarnation() {
		t.Errorf("%d incarnations", len(n.Lineage))
	}
	if GenerationsOf(3) <= GenerationsOf(2)+1000 {
		t.Error("the generations of two majors meet")
	}
}

func TestRecordSavedAndDamaged(t *testing.T) {
	dir := t.TempDir()
	if r, err := Load(disk.OS, dir); r != nil || err != nil {
		t.Fatal(r, err)
	}
	r := First(Board{"devicetree:a"}, false)
	if err := r.Save(disk.OS, dir); err != nil {
		t.Fatal(err)
	}
	if !r.Saw(Board{"devicetree:a", "machine:m"}) || r.Saw(Board{"devicetree:a"}) || len(r.Board) != 2 {
		t.Errorf("what was seen: %v", r.Board)
	}
	name := filepath.Join(dir, recordFile)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) - 2 { // its last bytes are a brace and an end of line
		if err := os.WriteFile(name, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(disk.OS, dir); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	if err := os.WriteFile(name, []byte(`{"version":2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(disk.OS, dir); !errors.Is(err, ErrVersion) || errors.Is(err, ErrCorrupt) {
		t.Errorf("a newer version: %v", err)
	}
}

func TestRule29_FenceHoldsUntilAHigherMajor(t *testing.T) {
	dir := t.TempDir()
	r := First(Board{"devicetree:a"}, false)
	f := &Fenced{Major: 2, Board: "devicetree:b", Where: "x", Ours: 1}
	if err := f.Save(disk.OS, dir); err != nil {
		t.Fatal(err)
	}
	for major, want := range map[uint32]bool{1: true, 2: true, 3: false} {
		r.Major = major
		got, err := LoadFenced(disk.OS, dir, r)
		if err != nil || (got != nil) != want {
			t.Errorf("major %d: %v, %v", major, got, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, fencedFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadFenced(disk.OS, dir, r); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a fence that cannot be read: %v", err)
	}
	if err := Lift(disk.OS, dir); err != nil {
		t.Fatal(err)
	}
	if err := Lift(disk.OS, dir); err != nil {
		t.Errorf("a repeat: %v", err)
	}
}

func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"version":1,"major":1,"minor":0,"token":"x","board":["x"],"lineage":[{"Major":1,"Minor":0}]}`))
	f.Add([]byte(`{"version":1,"major":2,"where":"w","ours":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := decodeRecord(b); err == nil {
			dir := t.TempDir()
			if err := r.Save(disk.OS, dir); err != nil {
				t.Fatal(err)
			}
			if again, err := Load(disk.OS, dir); err != nil || again.Incarnation() != r.Incarnation() {
				t.Fatal(again, err)
			}
		}
		var fence Fenced
		_ = decodeFenced(b, &fence)
	})
}
