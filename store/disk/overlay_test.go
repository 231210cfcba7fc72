package disk_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

// contents reads all files of a directory.
func contents(t *rapid.T, fsys disk.FS) string {
	names, err := fsys.List("/d")
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, n := range names {
		data, err := disk.ReadFile(fsys, filepath.Join("/d", n))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s %x\n", n, data)
	}
	return b.String()
}

// TestOverlay: whatever is done, an overlay shows what a file system of its own would, and what lies beneath stays as it was.
func TestOverlay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, model := disktest.NewMem(), disktest.NewMem()
		for i := range 3 {
			data := bytes.Repeat([]byte{byte('a' + i)}, rapid.IntRange(0, 9000).Draw(t, "size"))
			for _, m := range []disk.FS{base, model} {
				if err := errors.Join(m.MkdirAll("/d"), disk.WriteFileAtomic(m, fmt.Sprintf("/d/%d", i), data)); err != nil {
					t.Fatal(err)
				}
			}
		}
		before := contents(t, base)
		over := disk.NewOverlay(base)
		defer over.Close()
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			name := fmt.Sprintf("/d/%d", rapid.IntRange(0, 4).Draw(t, "name"))
			to := fmt.Sprintf("/d/%d", rapid.IntRange(0, 4).Draw(t, "to"))
			at, n := rapid.Int64Range(0, 12000).Draw(t, "at"), rapid.IntRange(1, 6000).Draw(t, "n")
			what := rapid.SampledFrom([]string{"create", "write", "write", "truncate", "rename", "remove"}).Draw(t, "what")
			if what == "rename" && name == to {
				continue
			}
			do := func(m disk.FS) error {
				switch what {
				case "create":
					f, err := m.Create(name)
					if err == nil {
						err = f.Close()
					}
					return err
				case "rename":
					return m.Rename(name, to)
				case "remove":
					return m.Remove(name)
				}
				f, err := m.Open(name)
				if err != nil {
					return err
				}
				if what == "truncate" {
					return errors.Join(f.Truncate(at), f.Close())
				}
				_, err = f.WriteAt(bytes.Repeat([]byte{'w'}, n), at)
				return errors.Join(err, f.Close())
			}
			got, want := do(over), do(model)
			if (got == nil) != (want == nil) || errors.Is(want, fs.ErrNotExist) != errors.Is(got, fs.ErrNotExist) || errors.Is(want, fs.ErrExist) != errors.Is(got, fs.ErrExist) {
				t.Fatalf("%s %s: %v, want %v", what, name, got, want)
			}
			if got, want := contents(t, over), contents(t, model); got != want {
				t.Fatalf("%s %s: holds %.200s, want %.200s", what, name, got, want)
			}
		}
		if contents(t, base) != before {
			t.Fatal("what lies beneath was changed")
		}
	})
	over := disk.NewOverlay(disktest.NewMem())
	if err := over.MkdirAll("/a/b"); err != nil {
		t.Fatal(err)
	}
	if names, err := over.List("/a"); err != nil || !slices.Equal(names, []string{"b"}) {
		t.Errorf("%v, %v", names, err)
	}
	if _, err := over.List("/c"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
