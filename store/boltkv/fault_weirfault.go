//go:build weirfault

package boltkv

import (
	"errors"
	"os"
	"reflect"
	"unsafe"

	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

// watched is how the crash run's power cuts see what bbolt writes, and how a disk under pressure fails it: the recorder, or the pressed disk, writes in its stead, through a file of its own.
type watched struct{ file disk.File }

// ofTest tells whether disk.OS records, or fails on demand.
func ofTest() (disk.FS, bool) {
	switch d := disk.OS.(type) {
	case *disktest.Recorder, *disktest.Pressed:
		return d.(disk.FS), true
	}
	return nil, false
}

// watchedSteps have a disk under pressure fail a creation as well.
func watchedSteps(s steps) steps {
	d, ok := disk.OS.(*disktest.Pressed)
	if !ok {
		return s
	}
	s.remove, s.rename = d.Remove, d.Rename
	s.sync = func(path string) error {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			return d.SyncDir(path)
		}
		f, err := d.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	}
	return s
}

// watch takes bbolt's writes over where disk.OS records or fails. bbolt has synced its pages when it writes a meta page (tx.go: write, writeMeta),
// and the meta page when the transaction returns; what it does when the file grows (db.go: grow) comes through.
func watch(d *DB) (watched, error) {
	through, ok := ofTest()
	if !ok || d.bolt.IsReadOnly() {
		return watched{}, nil
	}
	file, err := through.Open(d.path)
	if err != nil {
		return watched{}, err
	}
	field := reflect.ValueOf(d.bolt).Elem().FieldByName("ops").FieldByName("writeAt")
	hook := (*func([]byte, int64) (int, error))(unsafe.Pointer(field.UnsafeAddr()))
	metas := 2 * int64(os.Getpagesize()) // bbolt's page is that of the machine which made the file: this one
	*hook = func(p []byte, off int64) (int, error) {
		if off < metas {
			if err := file.Sync(); err != nil {
				return 0, err
			}
		}
		return file.WriteAt(p, off)
	}
	return watched{file}, nil
}

// synced: the transaction has returned.
func (w watched) synced(err error) error {
	if w.file == nil || err != nil {
		return err
	}
	return w.file.Sync()
}

func (w watched) close() error {
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}
