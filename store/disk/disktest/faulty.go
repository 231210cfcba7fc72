package disktest

import (
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/weirstream/weir/store/disk"
)

// Faulty wraps a file system and fails on demand. Without limits everything passes.
type Faulty struct {
	disk.FS
	mu       sync.Mutex
	limited  bool
	left     int64 // bytes that files may still grow by
	syncs    int   // Syncs that fail
	writes   int   // WriteAts that fail with EIO
	reads    int   // ReadAts that fail with EIO
	failures int
	kill     int // syncs until the process is killed; 0: never
	killed   bool
}

// ErrKilled is what every operation gives after the kill.
var ErrKilled = errors.New("process was killed")

// NewFaulty wraps fsys.
func NewFaulty(fsys disk.FS) *Faulty { return &Faulty{FS: fsys} }

// LimitSpace lets files grow by n more bytes in all; then they get ENOSPC. Free tells what is left.
func (f *Faulty) LimitSpace(n int64) { f.mu.Lock(); f.limited, f.left = true, n; f.mu.Unlock() }

// KillAtSync kills the process at the n-th sync from now: it and everything later does nothing and gives ErrKilled. What was written
// and not synced stays visible to the next process.
func (f *Faulty) KillAtSync(n int) { f.mu.Lock(); f.kill = n; f.mu.Unlock() }

// Kill kills it now.
func (f *Faulty) Kill() { f.mu.Lock(); f.killed = true; f.mu.Unlock() }

func (f *Faulty) dead(sync bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if sync && f.kill > 0 {
		f.kill--
		f.killed = f.killed || f.kill == 0
	}
	return f.killed
}

// FailSyncs makes the next n syncs fail with EIO. The wrapped file is not synced; a Mem below forgets its dirty pages.
func (f *Faulty) FailSyncs(n int) { f.mu.Lock(); f.syncs = n; f.mu.Unlock() }

// FailWrites makes the next n writes fail with EIO.
func (f *Faulty) FailWrites(n int) { f.mu.Lock(); f.writes = n; f.mu.Unlock() }

// FailReads makes the next n reads fail with EIO.
func (f *Faulty) FailReads(n int) { f.mu.Lock(); f.reads = n; f.mu.Unlock() }

// Failures is how many operations failed on demand.
func (f *Faulty) Failures() int { f.mu.Lock(); defer f.mu.Unlock(); return f.failures }

func (f *Faulty) take(n *int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if *n <= 0 {
		return false
	}
	*n--
	f.failures++
	return true
}

// Create implements disk.FS.
func (f *Faulty) Create(name string) (disk.File, error) {
	if f.dead(false) {
		return nil, ErrKilled
	}
	in, err := f.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: in, f: f, name: name}, nil
}

// Open implements disk.FS.
func (f *Faulty) Open(name string) (disk.File, error) {
	in, err := f.FS.Open(name)
	if err != nil {
		return nil, err
	}
	return &faultyFile{File: in, f: f, name: name}, nil
}

// Remove implements disk.FS and gives the file's space back.
func (f *Faulty) Remove(name string) error {
	if f.dead(false) {
		return ErrKilled
	}
	size := int64(0)
	if in, err := f.FS.Open(name); err == nil {
		size, _ = in.Size()
		_ = in.Close()
	}
	if err := f.FS.Remove(name); err != nil {
		return err
	}
	f.mu.Lock()
	f.left += size
	f.mu.Unlock()
	return nil
}

// Rename implements disk.FS.
func (f *Faulty) Rename(old, new string) error {
	if f.dead(false) {
		return ErrKilled
	}
	return f.FS.Rename(old, new)
}

// SyncDir implements disk.FS.
func (f *Faulty) SyncDir(dir string) error {
	if f.dead(true) {
		return ErrKilled
	}
	return f.FS.SyncDir(dir)
}

// Free implements disk.FS.
func (f *Faulty) Free(dir string) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.limited {
		return f.left, nil
	}
	return f.FS.Free(dir)
}

type faultyFile struct {
	disk.File
	f    *Faulty
	name string
}

func (f *faultyFile) ReadAt(p []byte, off int64) (int, error) {
	if f.f.take(&f.f.reads) {
		return 0, fmt.Errorf("read %s: %w", f.name, syscall.EIO)
	}
	return f.File.ReadAt(p, off)
}

func (f *faultyFile) WriteAt(p []byte, off int64) (int, error) {
	if f.f.dead(false) {
		return 0, ErrKilled
	}
	if f.f.take(&f.f.writes) {
		return 0, fmt.Errorf("write %s: %w", f.name, syscall.EIO)
	}
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	grow := max(0, off+int64(len(p))-size)
	f.f.mu.Lock()
	if f.f.limited && grow > f.f.left {
		f.f.failures++
		f.f.mu.Unlock()
		return 0, fmt.Errorf("write %s: %w", f.name, syscall.ENOSPC)
	}
	f.f.left -= grow
	f.f.mu.Unlock()
	return f.File.WriteAt(p, off)
}

func (f *faultyFile) Sync() error {
	if f.f.dead(true) {
		return ErrKilled
	}
	if !f.f.take(&f.f.syncs) {
		return f.File.Sync()
	}
	if m, ok := f.File.(*memFile); ok {
		m.m.FailSyncs(1)
		return m.Sync()
	}
	return fmt.Errorf("sync %s: %w", f.name, syscall.EIO)
}
