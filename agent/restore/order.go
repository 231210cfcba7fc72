// Package restore is what a restore of a savepoint begins with: the files of savepoints, and the order in the directory of a pipeline that its next start carries out.
package restore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/store/disk"
)

// File in a pipeline's directory says that its next start restores a savepoint. It is durable before anything is changed, and goes once the
// checkpoint that the savepoint became is durable: a crash between the two does it again.
const File = "restore.json"

// ErrNoOrder: there is nothing to take back.
var ErrNoOrder = errors.New("no restore is ordered")

// Cancel takes the order in a pipeline's directory back. Durable on return; without one it is ErrNoOrder.
func Cancel(dir string) error {
	err := disk.OS.Remove(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrNoOrder
	}
	if err == nil {
		err = disk.OS.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("cancel the restore: %w", err)
	}
	return nil
}

// Order has the next start of the pipeline restore a savepoint. Durable on return.
func Order(dir string, o api.RestoreOptions) error {
	err := disk.OS.MkdirAll(dir)
	if err == nil {
		err = record.Write(disk.OS, filepath.Join(dir, File), o)
	}
	if err != nil {
		return fmt.Errorf("order the restore: %w", err)
	}
	return nil
}

// Ordered reads the order in a pipeline's directory, if there is one.
func Ordered(fsys disk.FS, dir string) (o api.RestoreOptions, there bool, err error) {
	there, err = record.Read(fsys, filepath.Join(dir, File), statedir.Small(File), &o)
	return o, there, err
}

// Pending tells whether a pipeline's restore is ordered and not done.
func Pending(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, File))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
