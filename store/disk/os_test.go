package disk_test

import (
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
