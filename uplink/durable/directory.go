// Package durable makes names in a file system survive a power cut, for the sinks that write there.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// MakeDir makes a directory and those above it that are missing; their names are durable when it returns.
func MakeDir(dir string) error {
	err := os.Mkdir(dir, 0o750)
	if errors.Is(err, fs.ErrNotExist) {
		if err := MakeDir(filepath.Dir(dir)); err != nil {
			return err
		}
		err = os.Mkdir(dir, 0o750)
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	return SyncDir(filepath.Dir(dir))
}

// SyncDir makes the names in a directory durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
