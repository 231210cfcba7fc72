package boards

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHostileFacts: a root that somebody prepared (weir boards detect --root) neither hangs nor floods, nor sends bytes to the terminal.
func TestHostileFacts(t *testing.T) {
	for name, plant := range map[string]func(file string) error{
		"a pipe":         func(file string) error { return unix.Mkfifo(file, 0o600) },
		"a directory":    func(file string) error { return os.Mkdir(file, 0o700) },
		"an escape":      func(file string) error { return os.WriteFile(file, []byte("a,b\x1b[2J\x00"), 0o600) },
		"broken UTF-8":   func(file string) error { return os.WriteFile(file, []byte("a,b\xff\x00"), 0o600) },
		"a link to zero": func(file string) error { return os.Symlink("/dev/zero", file) },
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			dir := filepath.Join(root, treeDirs[0])
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := plant(filepath.Join(dir, "compatible")); err != nil {
				t.Fatal(err)
			}
			if f := Read(root); len(f.Compatible) != 0 {
				t.Errorf("it says %q", f.Compatible)
			}
		})
	}
	root := t.TempDir()
	dir := filepath.Join(root, treeDirs[0])
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "compatible"), []byte(strings.Repeat("vendor,board\x00", 1<<18)), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := Read(root); len(f.Compatible) > factMax {
		t.Errorf("%d names of a tree of 3 MB", len(f.Compatible))
	}
}
