//go:build !nopebble

package pebblekv

import (
	"io"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// cacheFS keeps Pebble's tables in files and everything else (manifest, options, markers, lock) in memory: the directory is never opened
// again, so its manifest need not last. No file is synced: what a compaction removes within the kernel's write-back time
// never reaches the flash. A full disk can then fail a flush, which Pebble repeats, but not the manifest, over which it would end
// the process.
type cacheFS struct {
	vfs.FS // files
	mem    *vfs.MemFS
}

func newCacheFS(files vfs.FS) *cacheFS { return &cacheFS{FS: files, mem: vfs.NewMem()} }

// of tells where a name lives.
func (c *cacheFS) of(name string) vfs.FS {
	if strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".blob") {
		return c.FS
	}
	return c.mem
}

func (c *cacheFS) Create(name string, w vfs.DiskWriteCategory) (vfs.File, error) {
	return unsynced(c.of(name).Create(name, w))
}

func (c *cacheFS) Link(from, to string) error { return c.of(from).Link(from, to) }

func (c *cacheFS) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	return c.of(name).Open(name, o...)
}

func (c *cacheFS) OpenReadWrite(name string, w vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return unsynced(c.of(name).OpenReadWrite(name, w, o...))
}

// OpenDir is for syncing names, which there is no need for.
func (c *cacheFS) OpenDir(name string) (vfs.File, error) { return unsynced(c.mem.OpenDir(name)) }

func (c *cacheFS) Remove(name string) error { return c.of(name).Remove(name) }

func (c *cacheFS) Rename(from, to string) error { return c.of(from).Rename(from, to) }

func (c *cacheFS) ReuseForWrite(from, to string, w vfs.DiskWriteCategory) (vfs.File, error) {
	return unsynced(c.of(from).ReuseForWrite(from, to, w))
}

func (c *cacheFS) MkdirAll(dir string, perm os.FileMode) error {
	if err := c.mem.MkdirAll(dir, perm); err != nil {
		return err
	}
	return c.FS.MkdirAll(dir, perm)
}

func (c *cacheFS) Lock(name string) (io.Closer, error) { return c.mem.Lock(name) }

func (c *cacheFS) List(dir string) ([]string, error) {
	names, err := c.mem.List(dir)
	if err != nil {
		return nil, err
	}
	files, err := c.FS.List(dir)
	return append(names, files...), err
}

func (c *cacheFS) Stat(name string) (vfs.FileInfo, error) { return c.of(name).Stat(name) }

func (c *cacheFS) Unwrap() vfs.FS { return c.FS }

// noSync is a file that is written back whenever the kernel likes.
type noSync struct{ vfs.File }

func unsynced(f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return noSync{f}, nil
}

func (noSync) Sync() error                { return nil }
func (noSync) SyncData() error            { return nil }
func (noSync) SyncTo(int64) (bool, error) { return true, nil }
