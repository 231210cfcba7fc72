// Package disk is the file system as weir uses it: few operations, each with a stated durability, behind an interface so that
// tests can lose, tear and reorder what was not synced (disktest).
//
// Names are durable only after SyncDir of their directory; data only after File.Sync. A failed Sync proves nothing about
// what is on the device: the caller stops using the file, and does not try again.
package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// ErrRemoved: somebody has removed the file while it was open. What it holds, synced or not, goes when it is closed.
var ErrRemoved = errors.New("file was removed while it was in use")

// ErrNoFile: a directory, a pipe, a device or a link to itself lies where a file is to be. It does not mend itself.
var ErrNoFile = errors.New("it is no file")

// FS is a file system. Implementations are safe for use by several goroutines. A missing file is fs.ErrNotExist, one that
// is there already fs.ErrExist, a full device syscall.ENOSPC.
type FS interface {
	// Create makes a new file for reading and writing. Its name is durable after SyncDir.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing.
	Open(name string) (File, error)
	// Rename replaces new, if there is one. Durable after SyncDir of new's directory.
	Rename(old, new string) error
	Remove(name string) error
	// MkdirAll makes a directory and its parents, each durable on return.
	MkdirAll(dir string) error
	// SyncDir makes the names in dir durable.
	SyncDir(dir string) error
	// List gives the base names in dir, sorted. A missing dir is fs.ErrNotExist.
	List(dir string) ([]string, error)
	// Free is the space in bytes that an unprivileged process can still use.
	Free(dir string) (int64, error)
}

// File is an open file. ReadAt and WriteAt may be called from several goroutines.
type File interface {
	io.ReaderAt
	io.WriterAt
	// Sync makes the data and the size durable (fdatasync).
	Sync() error
	Truncate(size int64) error
	Size() (int64, error)
	Close() error
}

// ReadFile reads a whole file.
func ReadFile(fsys FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	n, err := f.ReadAt(b, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:n], nil
}

// WriteFileAtomic replaces a file: after a crash the name has either the old content or the new one. Durable on return. A leftover
// NAME.tmp of an earlier crash is replaced.
func WriteFileAtomic(fsys FS, name string, data []byte) error {
	tmp := name + ".tmp"
	if err := fsys.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", tmp, err)
	}
	f, err := fsys.Create(tmp)
	if err != nil {
		return fmt.Errorf("create %s: %w", tmp, err)
	}
	_, err = f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", tmp, err)
	}
	if err := fsys.Rename(tmp, name); err != nil {
		return fmt.Errorf("rename %s: %w", tmp, err)
	}
	if err := fsys.SyncDir(filepath.Dir(name)); err != nil {
		return fmt.Errorf("sync directory of %s: %w", name, err)
	}
	return nil
}
