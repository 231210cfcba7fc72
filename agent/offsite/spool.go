// Package offsite joins a gateway with the central store: it opens the store of a config, with the claims of who speaks for the gateway; it reads what an upload has to hold out of a running pipeline's checkpoint, and makes a savepoint file of what was
// fetched. How uploads lie in the store is uplink/central's.
package offsite

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink/central"
)

// Spool is a directory as central.Spool.
type Spool struct {
	fs  disk.FS
	dir string
}

var _ central.Spool = (*Spool)(nil)

// OpenSpool makes the directory when it is not there.
func OpenSpool(fsys disk.FS, dir string) (*Spool, error) {
	if err := fsys.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("make %s: %w", dir, err)
	}
	return &Spool{fsys, dir}, nil
}

// Read gives a file.
func (s *Spool) Read(name string) ([]byte, error) {
	return disk.ReadFile(s.fs, filepath.Join(s.dir, name))
}

// Write puts a file, durably.
func (s *Spool) Write(name string, b []byte) error {
	return disk.WriteFileAtomic(s.fs, filepath.Join(s.dir, name), b)
}

// Remove removes a file.
func (s *Spool) Remove(name string) error {
	if err := s.fs.Remove(filepath.Join(s.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// List gives the names of all files but those that are not whole.
func (s *Spool) List() ([]string, error) {
	all, err := s.fs.List(s.dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, n := range all {
		if !strings.HasSuffix(n, ".tmp") {
			names = append(names, n)
		}
	}
	return names, nil
}

// RemoveAll removes the directory with what it holds.
func (s *Spool) RemoveAll() error {
	all, err := s.fs.List(s.dir)
	if err != nil {
		return err
	}
	for _, n := range all {
		err = errors.Join(err, s.Remove(n))
	}
	return errors.Join(err, s.fs.Remove(s.dir))
}
