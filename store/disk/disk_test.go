package disk_test

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

// TestFileSystems: the real file system and the one in memory do the same.
func TestFileSystems(t *testing.T) {
	for name, fsys := range map[string]disk.FS{"os": disk.OS, "beneath": disk.OS, "mem": disktest.NewMem(), "faulty": disktest.NewFaulty(disktest.NewMem())} {
		t.Run(name, func(t *testing.T) {
			root := "/root"
			switch name {
			case "os":
				root = t.TempDir()
			case "beneath":
				root = t.TempDir()
				fsys = disk.Beneath(root)
			}
			dir := filepath.Join(root, "a", "b")
			if _, err := fsys.List(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if err := errors.Join(fsys.MkdirAll(dir), fsys.MkdirAll(dir)); err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(dir, "f")
			if _, err := fsys.Open(file); !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			f, err := fsys.Create(file)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fsys.Create(file); !errors.Is(err, fs.ErrExist) {
				t.Fatal(err)
			}
			if _, err := f.WriteAt([]byte("behind"), 10); err != nil {
				t.Fatal(err)
			}
			if size, err := f.Size(); size != 16 || err != nil {
				t.Fatal(size, err)
			}
			if err := errors.Join(f.Truncate(12), f.Sync(), fsys.SyncDir(dir), f.Close()); err != nil {
				t.Fatal(err)
			}
			if b, err := disk.ReadFile(fsys, file); err != nil || !bytes.Equal(b, append(make([]byte, 10), "be"...)) {
				t.Fatal(b, err)
			}
			for _, text := range []string{"one", "a longer two", ""} {
				if err := disk.WriteFileAtomic(fsys, file, []byte(text)); err != nil {
					t.Fatal(err)
				}
				if b, err := disk.ReadFile(fsys, file); err != nil || string(b) != text {
					t.Fatal(string(b), err)
				}
			}
			if names, err := fsys.List(dir); err != nil || len(names) != 1 || names[0] != "f" {
				t.Fatal(names, err)
			}
			if err := errors.Join(fsys.Rename(file, file+"2"), fsys.Remove(file+"2")); err != nil {
				t.Fatal(err)
			}
			if err := fsys.Remove(file); !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if n, err := fsys.Free(root); err != nil || n <= 0 {
				t.Fatal(n, err)
			}
		})
	}
}

// noDirSync and noFileSync are planted mistakes.
type noDirSync struct{ disk.FS }

func (noDirSync) SyncDir(string) error { return nil }

type noFileSync struct{ disk.FS }

func (n noFileSync) Create(name string) (disk.File, error) {
	f, err := n.FS.Create(name)
	return unsynced{f}, err
}

type unsynced struct{ disk.File }

func (unsynced) Sync() error { return nil }

// TestWriteFileAtomicCrashStates: the name has the old content or the new one, and the new one once the call returned.
func TestWriteFileAtomicCrashStates(t *testing.T) {
	run := func(wrap func(disk.FS) disk.FS) (bad, states int) {
		m := disktest.NewMem()
		_ = m.MkdirAll("/d")
		olds, news := bytes.Repeat([]byte("old "), 600), bytes.Repeat([]byte("new!"), 900)
		if err := disk.WriteFileAtomic(m, "/d/f", olds); err != nil {
			t.Fatal(err)
		}
		var c disktest.Crasher
		done := uint64(0)
		check := func(string) {
			c.Images(m, done, func(img *disktest.Mem) {
				b, err := disk.ReadFile(img, "/d/f")
				if err != nil || !bytes.Equal(b, news) && (done == 1 || !bytes.Equal(b, olds)) {
					bad++
				}
			})
		}
		m.OnOp(check)
		if err := disk.WriteFileAtomic(wrap(m), "/d/f", news); err != nil {
			t.Fatal(err)
		}
		done = 1
		check("")
		return bad, c.Distinct()
	}
	if bad, states := run(func(f disk.FS) disk.FS { return f }); bad > 0 || states < 20 {
		t.Errorf("%d of %d states are wrong", bad, states)
	}
	if bad, _ := run(func(f disk.FS) disk.FS { return noDirSync{f} }); bad == 0 {
		t.Error("a missing directory sync is not found")
	}
	if bad, _ := run(func(f disk.FS) disk.FS { return noFileSync{f} }); bad == 0 {
		t.Error("a missing file sync is not found")
	}
}

func TestFaulty(t *testing.T) {
	m := disktest.NewMem()
	f := disktest.NewFaulty(m)
	f.LimitSpace(100)
	file, err := f.Create("/f")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(make([]byte, 100), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(make([]byte, 100), 1); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte("overwriting needs no space"), 0); err != nil {
		t.Fatal(err)
	}
	if n, _ := f.Free("/"); n != 0 {
		t.Fatal(n)
	}
	f.FailSyncs(1)
	if err := file.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if err := errors.Join(file.Sync(), m.SyncDir("/")); err != nil { // and yet what the failed one should have written is not durable
		t.Fatal(err)
	}
	(&disktest.Crasher{}).Images(m, 0, func(img *disktest.Mem) {
		if b, err := disk.ReadFile(img, "/f"); err != nil || len(b) != 0 {
			t.Fatal(b, err)
		}
	})
	f.FailWrites(1)
	if _, err := file.WriteAt([]byte("x"), 0); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	f.FailReads(1)
	if _, err := file.ReadAt(make([]byte, 1), 0); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	f.KillAtSync(1)
	if err := file.Sync(); !errors.Is(err, disktest.ErrKilled) {
		t.Fatal(err)
	}
	if _, err := f.Create("/g"); !errors.Is(err, disktest.ErrKilled) || f.Failures() != 4 {
		t.Fatal(err, f.Failures())
	}
}
