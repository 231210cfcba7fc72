package disktest

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/store/disk"
)

// Mistake about what is durable, as programs make it.
type Mistake string

const (
	// NoSync: nothing is synced. The kernel writes it when it likes.
	NoSync Mistake = "no-sync"
	// NoFlush: what is overwritten in place reaches the device, as with O_DIRECT, and nobody tells the device to keep it (fdatasync does). Files that grew are synced as they must be.
	NoFlush Mistake = "no-flush"
)

// Careless is fsys, which must be disk.OS, with a mistake. Kills do not find it, nor do power cuts of a machine whose disk has no volatile cache of its own.
func Careless(fsys disk.FS, m Mistake) disk.FS { return careless{fsys, m} }

type careless struct {
	disk.FS
	mistake Mistake
}

func (c careless) Create(name string) (disk.File, error) {
	f, err := c.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return &carelessFile{File: f, mistake: c.mistake}, nil
}

func (c careless) Open(name string) (disk.File, error) {
	f, err := c.FS.Open(name)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	return &carelessFile{File: f, mistake: c.mistake, synced: size}, err
}

func (c careless) SyncDir(dir string) error {
	if c.mistake == NoSync {
		return nil
	}
	return c.FS.SyncDir(dir)
}

// MkdirAll syncs by itself in disk.OS, which may stay so: a directory that is there holds nothing yet.

type carelessFile struct {
	disk.File
	mistake Mistake
	synced  int64 // size at the last sync that was one
}

func (f *carelessFile) Sync() error {
	if f.mistake == NoSync {
		return nil
	}
	size, err := f.Size()
	if err != nil {
		return err
	}
	if size != f.synced {
		f.synced = size
		return f.File.Sync()
	}
	fd, ok := f.File.(interface{ Fd() uintptr })
	if !ok {
		return fmt.Errorf("%T is no file of the kernel", f.File)
	}
	return unix.SyncFileRange(int(fd.Fd()), 0, 0, unix.SYNC_FILE_RANGE_WAIT_BEFORE|unix.SYNC_FILE_RANGE_WRITE|unix.SYNC_FILE_RANGE_WAIT_AFTER)
}
