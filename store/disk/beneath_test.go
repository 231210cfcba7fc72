package disk_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/store/disk"
)

// TestBeneathFollowsNoLink: neither as the file nor on the way to it, whatever is done; and it opens no pipe, no file with a second name, nothing above its root.
func TestBeneathFollowsNoLink(t *testing.T) {
	top := t.TempDir()
	root, secret := filepath.Join(top, "root"), filepath.Join(top, "secret")
	for _, dir := range []string{root, secret, filepath.Join(root, "dir")} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	key := filepath.Join(secret, "key")
	if err := os.WriteFile(key, []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"file": key, "way": secret, "dir/up": "..", "gone": filepath.Join(secret, "new")} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(key, filepath.Join(root, "hard")); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(root, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := disk.Beneath(root)
	for _, name := range []string{"file", "way/key", "dir/up/file", "hard", "pipe", "dir", "../secret/key", "gone"} {
		if f, err := b.Open(root + "/" + name); err == nil {
			t.Errorf("%s was opened", name)
			_ = f.Close()
		}
		if name == "dir" {
			continue
		}
		if f, err := b.Create(root + "/" + name); err == nil {
			t.Errorf("%s was made", name)
			_ = f.Close()
		}
	}
	for what, f := range map[string]func(dir string) error{
		"list": func(dir string) error { _, err := b.List(dir); return err }, "sync": b.SyncDir, "mkdir": b.MkdirAll,
		"mkdir below": func(dir string) error { return b.MkdirAll(dir + "/x") },
		"free":        func(dir string) error { _, err := b.Free(dir); return err },
		"remove":      func(dir string) error { return b.Remove(dir + "/key") },
		"rename":      func(dir string) error { return b.Rename(dir+"/key", root+"/key") },
		"replace":     func(dir string) error { return b.Rename(root+"/hard", dir+"/key") },
		"write":       func(dir string) error { return disk.WriteFileAtomic(b, dir+"/key", nil) },
	} {
		if f(root+"/way") == nil {
			t.Errorf("%s through a link", what)
		}
	}
	if got, err := os.ReadFile(key); err != nil || string(got) != "key" {
		t.Errorf("%q, %v", got, err)
	}
	if list, err := os.ReadDir(secret); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}
