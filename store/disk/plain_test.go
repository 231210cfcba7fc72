package disk_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/store/disk"
)

// TestNoFileIsOpened: a pipe, a device, a directory, a link to itself. Nobody waits for them, and each is ErrNoFile.
func TestNoFileIsOpened(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(unix.Mkfifo(at("pipe"), 0o600), os.Mkdir(at("dir"), 0o700), os.Symlink(at("loop"), at("loop")), os.Symlink("/dev/zero", at("device")), os.Symlink(at("pipe"), at("way")), unix.Mknod(at("socket"), unix.S_IFSOCK|0o600, 0),
		os.WriteFile(at("file"), []byte("text"), 0o400), os.Symlink(at("file"), at("link")), os.Symlink(at("gone"), at("dangling")))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pipe", "dir", "loop", "device", "way", "socket"} {
		if f, err := disk.OS.Open(at(name)); !errors.Is(err, disk.ErrNoFile) {
			t.Errorf("%s: %v, %v", name, f, err)
		}
		if f, err := disk.OpenPlain(at(name)); !errors.Is(err, disk.ErrNoFile) {
			t.Errorf("%s for reading: %v, %v", name, f, err)
		}
	}
	if _, err := disk.OpenPlain(at("dangling")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	for _, name := range []string{"file", "link"} {
		if b, err := disk.ReadPlain(at(name), 4); err != nil || string(b) != "text" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if b, err := disk.ReadPlain(at("file"), 3); err == nil || b != nil || !strings.Contains(err.Error(), "more than 3 bytes") {
		t.Errorf("%q, %v", b, err)
	}
}
