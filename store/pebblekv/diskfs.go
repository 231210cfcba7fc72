//go:build !nopebble

package pebblekv

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/weirstream/weir/store/disk"
)

// diskFS has Pebble work on a disk.FS, so that what is durable goes through the file system that the crash tests cut.
type diskFS struct{ disk disk.FS }

var _ vfs.FS = diskFS{}

func (d diskFS) Create(name string, _ vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.disk.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := d.disk.Create(name)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, name: name}, nil
}

// Link is for checkpoints and ingestion, which are not in use.
func (d diskFS) Link(string, string) error { return errors.ErrUnsupported }

func (d diskFS) Open(name string, _ ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.disk.Open(name)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, name: name}, nil
}

func (d diskFS) OpenReadWrite(name string, w vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.Open(name, o...)
	if errors.Is(err, fs.ErrNotExist) {
		return d.Create(name, w)
	}
	return f, err
}

func (d diskFS) OpenDir(name string) (vfs.File, error) { return dirFile{disk: d.disk, name: name}, nil }

func (d diskFS) Remove(name string) error { return d.disk.Remove(name) }

// RemoveAll is not in use.
func (d diskFS) RemoveAll(string) error { return errors.ErrUnsupported }

func (d diskFS) Rename(from, to string) error { return d.disk.Rename(from, to) }

func (d diskFS) ReuseForWrite(from, to string, w vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.disk.Rename(from, to); err != nil {
		return nil, err
	}
	return d.OpenReadWrite(to, w)
}

func (d diskFS) MkdirAll(dir string, _ os.FileMode) error { return d.disk.MkdirAll(dir) }

// Lock does nothing: the agent holds a lock on state_dir.
func (d diskFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

func (d diskFS) List(dir string) ([]string, error) { return d.disk.List(dir) }

func (d diskFS) Stat(name string) (vfs.FileInfo, error) {
	f, err := d.disk.Open(name)
	if err != nil {
		if _, listed := d.disk.List(name); listed == nil {
			return fileInfo{name: filepath.Base(name), dir: true}, nil
		}
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	return fileInfo{name: filepath.Base(name), size: size}, err
}

func (d diskFS) PathBase(path string) string    { return filepath.Base(path) }
func (d diskFS) PathJoin(elem ...string) string { return filepath.Join(elem...) }
func (d diskFS) PathDir(path string) string     { return filepath.Dir(path) }

func (d diskFS) GetDiskUsage(path string) (vfs.DiskUsage, error) {
	free, err := d.disk.Free(path)
	return vfs.DiskUsage{AvailBytes: uint64(max(free, 0)), TotalBytes: uint64(max(free, 0))}, err
}

func (d diskFS) Unwrap() vfs.FS { return nil }

// diskFile adds the offsets that a disk.File has not. Pebble reads or writes a file in order from one goroutine at a time.
type diskFile struct {
	disk.File
	name string
	mu   sync.Mutex
	in   int64 // read so far
	out  int64 // written so far
}

func (f *diskFile) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.ReadAt(p, f.in)
	f.in += int64(n)
	if n > 0 && errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func (f *diskFile) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, err := f.WriteAt(p, f.out)
	f.out += int64(n)
	return n, err
}

func (f *diskFile) Stat() (vfs.FileInfo, error) {
	size, err := f.Size()
	return fileInfo{name: filepath.Base(f.name), size: size}, err
}

func (f *diskFile) SyncData() error                { return f.Sync() }
func (f *diskFile) SyncTo(int64) (bool, error)     { return true, f.Sync() }
func (f *diskFile) Preallocate(int64, int64) error { return nil }
func (f *diskFile) Prefetch(int64, int64) error    { return nil }
func (f *diskFile) Fd() uintptr                    { return vfs.InvalidFd }

// dirFile is a directory, opened to sync its names.
type dirFile struct {
	disk disk.FS
	name string
}

func (d dirFile) Sync() error                { return d.disk.SyncDir(d.name) }
func (d dirFile) SyncData() error            { return d.Sync() }
func (d dirFile) SyncTo(int64) (bool, error) { return true, d.Sync() }

func (dirFile) Close() error                       { return nil }
func (dirFile) Read([]byte) (int, error)           { return 0, errors.ErrUnsupported }
func (dirFile) ReadAt([]byte, int64) (int, error)  { return 0, errors.ErrUnsupported }
func (dirFile) Write([]byte) (int, error)          { return 0, errors.ErrUnsupported }
func (dirFile) WriteAt([]byte, int64) (int, error) { return 0, errors.ErrUnsupported }
func (dirFile) Preallocate(int64, int64) error     { return errors.ErrUnsupported }
func (dirFile) Prefetch(int64, int64) error        { return errors.ErrUnsupported }
func (dirFile) Fd() uintptr                        { return vfs.InvalidFd }
func (d dirFile) Stat() (vfs.FileInfo, error) {
	return fileInfo{name: filepath.Base(d.name), dir: true}, nil
}

type fileInfo struct {
	name string
	size int64
	dir  bool
}

func (i fileInfo) Name() string           { return i.name }
func (i fileInfo) Size() int64            { return i.size }
func (i fileInfo) IsDir() bool            { return i.dir }
func (i fileInfo) ModTime() time.Time     { return time.Time{} }
func (i fileInfo) Sys() any               { return nil }
func (i fileInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }

func (i fileInfo) Mode() fs.FileMode {
	if i.dir {
		return fs.ModeDir | 0o700
	}
	return 0o600
}
