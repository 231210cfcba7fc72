//go:build weirfault

package boltkv

import (
	"os"
	"reflect"
	"unsafe"

	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

// watched is how the crash run's power cuts see what bbolt writes: the recorder writes in its stead, through a file of its own.
type watched struct{ file disk.File }

// watch takes bbolt's writes over where disk.OS records. bbolt has synced its pages when it writes a meta page (tx.go: write, writeMeta),
// and the meta page when the transaction returns; what it does when the file grows (db.go: grow) comes through.
func watch(d *DB) (watched, error) {
	recorder, ok := disk.OS.(*disktest.Recorder)
	if !ok || d.bolt.IsReadOnly() {
		return watched{}, nil
	}
	file, err := recorder.Open(d.path)
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
