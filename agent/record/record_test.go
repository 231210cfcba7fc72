package record

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
)

type note struct {
	Version int    `json:"version,omitempty"`
	Name    string `json:"name"`
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "note")
	form := Form{What: "note", Reads: 1}
	got := note{Name: "before"}
	if there, err := Read(disk.OS, name, form, &got); there || err != nil || got.Name != "before" {
		t.Errorf("no file: %v, %v, %+v", there, err, got)
	}
	for _, text := range []string{"a", "b"} {
		if err := Write(disk.OS, name, note{Name: text}); err != nil {
			t.Fatal(err)
		}
		if there, err := Read(disk.OS, name, form, &got); !there || err != nil || got.Name != text {
			t.Errorf("%v, %v, %+v", there, err, got)
		}
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if there, err := Read(disk.OS, name, form, &got); !there || err == nil {
		t.Errorf("an empty file: %v, %v", there, err)
	}
}

// TestNewerIsNotDamaged: the version is looked at before anything else, also where the rest has another form.
func TestNewerIsNotDamaged(t *testing.T) {
	mine := errors.New("mine")
	for _, c := range []struct {
		text  string
		form  Form
		newer bool
		fails bool
	}{
		{`{"name": "a"}`, Form{Reads: 1}, false, false},
		{`{"format": 1, "name": "a"}`, Form{Reads: 1}, false, false},
		{`{"format": 2, "name": "a"}`, Form{Reads: 1}, true, true},
		{`{"format": 2, "name": "a"}`, Form{Reads: 2}, false, false},
		{`{"format": 2, "name": {}}`, Form{Reads: 1}, true, true},
		{`{"name": {}}`, Form{Reads: 1}, false, true},
		{`{"format": 2, "version": 1, "name": "a"}`, Form{Member: "version", Reads: 1}, false, false},
		{`{"version": 2, "name": []}`, Form{Member: "version", Reads: 1, Newer: mine}, true, true},
		{`{"format": "x", "name": "a"}`, Form{Reads: 1}, false, false},
		{`{"format": 2, "name": "a"`, Form{Reads: 1}, false, true},
		{`[2]`, Form{Reads: 1}, false, true},
	} {
		err := Decode([]byte(c.text), c.form, &note{})
		var n *pipeline.NewerError
		if errors.As(err, &n) != c.newer || (err != nil) != c.fails || c.form.Newer != nil && !errors.Is(err, c.form.Newer) {
			t.Errorf("%s as %+v: %v", c.text, c.form, err)
		}
	}
}

// TestFlippedBits: of a file in which one bit is another one nothing is read that was not written.
func TestFlippedBits(t *testing.T) {
	type counted struct {
		Format int            `json:"format"`
		Serial uint64         `json:"serial"`
		Named  map[string]int `json:"named,omitempty"`
	}
	for _, written := range []counted{{}, {1, 70_000, map[string]int{"a": 1, "b": 2}}} {
		b, err := Encode(written)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for i := range b {
			for bit := range 8 {
				flipped := bytes.Clone(b)
				flipped[i] ^= 1 << bit
				var read counted
				err := Decode(flipped, Form{What: "counted", Reads: 1}, &read)
				if errors.Is(err, disk.ErrSum) {
					found++
				}
				if err == nil && !reflect.DeepEqual(read, written) {
					t.Errorf("bit %d of byte %d: %s", bit, i, flipped)
				}
			}
		}
		if found < len(b) {
			t.Errorf("%d of %d by the checksum", found, 8*len(b))
		}
	}
}

// TestFilesOfBefore have no checksum, and an object may be empty.
func TestFilesOfBefore(t *testing.T) {
	var n note
	if err := Decode([]byte(`{"name": "a"}`), Form{Reads: 1}, &n); err != nil || n.Name != "a" {
		t.Errorf("%+v, %v", n, err)
	}
	b, err := Encode(struct{}{})
	if err == nil {
		err = Decode(b, Form{Reads: 1}, &struct{}{})
	}
	if err != nil {
		t.Errorf("%s: %v", b, err)
	}
}
