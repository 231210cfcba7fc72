package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/store/disk"
)

// TestMkdirAllWhereNothingCanBeMade: the parent is there, and every try says that it is not. That is an error, no end of tries: a directory that an operator named ended the agent.
func TestMkdirAllWhereNothingCanBeMade(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(gone)
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"a", "a/b", "", "/proc/none", "/proc/none/more"} {
		if err := disk.OS.MkdirAll(dir); err == nil {
			t.Errorf("%q was made", dir)
		}
	}
}

// TestSyncOfARemovedFile: what was synced to a file without a name is lost when the process ends; who trusts it is told. A file that was renamed keeps what it has.
func TestSyncOfARemovedFile(t *testing.T) {
	dir := t.TempDir()
	for name, fsys := range map[string]disk.FS{"os": disk.OS, "beneath": disk.Beneath(dir)} {
		file, moved := filepath.Join(dir, name), filepath.Join(dir, name+"-moved")
		made, err := fsys.Create(file)
		if err != nil {
			t.Fatal(err)
		}
		found, err := fsys.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		both := func() (errs []error) {
			for _, f := range []disk.File{made, found} {
				if _, err := f.WriteAt([]byte("x"), 0); err != nil {
					t.Fatal(err)
				}
				errs = append(errs, f.Sync())
			}
			return errs
		}
		if err := errors.Join(both()...); err != nil {
			t.Error(err)
		}
		if err := fsys.Rename(file, moved); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(both()...); err != nil {
			t.Errorf("renamed: %v", err)
		}
		if err := fsys.Remove(moved); err != nil {
			t.Fatal(err)
		}
		for _, err := range both() {
			if !errors.Is(err, disk.ErrRemoved) {
				t.Errorf("%s: removed, and synced: %v", name, err)
			}
		}
		if err := errors.Join(made.Close(), found.Close()); err != nil {
			t.Error(err)
		}
	}
}
