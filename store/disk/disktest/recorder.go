package disktest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/weirstream/weir/store/disk"
)

// Recorder wraps the real file system and writes beside it what a power cut could still take: each write with the bytes that it replaces,
// each change of a name, and which of them were synced since. A process that records is killed; then Outage takes back what was not
// synced, and the next process finds what it would after a power cut. The records lie in a directory of their own on the same device,
// and last over any number of kills: what one process left in the page cache is still not durable for the next.
//
// An entry is written before the change that it tells of, and a sync's entry after the sync: a kill between errs to the side of loss, and
// only where nobody was told yet.
type Recorder struct {
	disk.FS
	dir   string
	delay time.Duration

	mu  sync.Mutex // guards log, seq; held from a change's entry until the change is made
	log *os.File
	seq uint64 // entries in the log
}

// Record begins, or goes on, to record what is done to fsys, which must be disk.OS. Each sync takes delay longer: a slow device, on which
// a kill between write and sync is likely.
func Record(fsys disk.FS, dir string, delay time.Duration) (*Recorder, error) {
	log, err := os.OpenFile(filepath.Join(dir, entriesName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open records: %w", err)
	}
	b, err := io.ReadAll(log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read records: %w", err), log.Close())
	}
	entries, size := decodeEntries(b)
	if err := log.Truncate(int64(size)); err != nil { // an entry that a kill cut short: its change was never made
		return nil, errors.Join(fmt.Errorf("cut records: %w", err), log.Close())
	}
	if _, err := log.Seek(int64(size), io.SeekStart); err != nil {
		return nil, errors.Join(fmt.Errorf("seek records: %w", err), log.Close())
	}
	return &Recorder{FS: fsys, dir: dir, delay: delay, log: log, seq: uint64(len(entries))}, nil
}

// note appends an entry. r.mu is held.
func (r *Recorder) note(e entry) error {
	if _, err := r.log.Write(e.encode()); err != nil {
		return fmt.Errorf("record: %w", err)
	}
	r.seq++
	return nil
}

// hold keeps a file's content reachable whatever becomes of its names, and gives its inode number. A missing file is 0.
func (r *Recorder) hold(name string) (uint64, error) {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	ino := info.Sys().(*syscall.Stat_t).Ino
	if err := os.Link(name, heldName(r.dir, ino)); err != nil && !errors.Is(err, fs.ErrExist) {
		return 0, fmt.Errorf("hold %s: %w", name, err)
	}
	return ino, nil
}

// Create implements disk.FS. The name's entry comes after it, with the inode that it got: a kill between leaves an empty file, which is
// durable then, as it may be.
func (r *Recorder) Create(name string) (disk.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.FS.Create(name)
	if err != nil {
		return nil, err
	}
	ino, err := r.hold(name)
	if err == nil {
		err = r.note(entry{kind: kindName, path: name, node: ino})
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &recordedFile{File: f, r: r, ino: ino}, nil
}

// Open implements disk.FS.
func (r *Recorder) Open(name string) (disk.File, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := r.FS.Open(name)
	if err != nil {
		return nil, err
	}
	ino, err := r.hold(name)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &recordedFile{File: f, r: r, ino: ino}, nil
}

// Rename implements disk.FS.
func (r *Recorder) Rename(old, new string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	node, err := r.hold(old)
	if err != nil {
		return err
	}
	replaced, err := r.hold(new)
	if err != nil {
		return err
	}
	if err := r.note(entry{kind: kindRename, path: new, from: old, node: node, prev: replaced}); err != nil {
		return err
	}
	return r.FS.Rename(old, new)
}

// Remove implements disk.FS.
func (r *Recorder) Remove(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	prev, err := r.hold(name)
	if err != nil || prev == 0 {
		return errors.Join(err, r.FS.Remove(name))
	}
	if err := r.note(entry{kind: kindName, path: name, prev: prev}); err != nil {
		return err
	}
	return r.FS.Remove(name)
}

// SyncDir implements disk.FS.
func (r *Recorder) SyncDir(dir string) error {
	return r.synced(entry{kind: kindSyncDir, path: filepath.Clean(dir)}, func() error { return r.FS.SyncDir(dir) })
}

// synced does a sync; it covers what was done before it began.
func (r *Recorder) synced(e entry, do func() error) error {
	r.mu.Lock()
	e.upTo = r.seq
	r.mu.Unlock()
	time.Sleep(r.delay)
	if err := do(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.note(e)
}

type recordedFile struct {
	disk.File
	r   *Recorder
	ino uint64
}

func (f *recordedFile) WriteAt(p []byte, off int64) (int, error) {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	e := entry{kind: kindWrite, node: f.ino, off: off, data: p}
	if err := f.replaced(&e, off, int64(len(p))); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

func (f *recordedFile) Truncate(size int64) error {
	f.r.mu.Lock()
	defer f.r.mu.Unlock()
	have, err := f.Size()
	if err != nil {
		return err
	}
	e := entry{kind: kindTruncate, node: f.ino, off: size}
	if err := f.replaced(&e, size, max(0, have-size)); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// replaced notes an entry with what lies at [off, off+n) and the file's size.
func (f *recordedFile) replaced(e *entry, off, n int64) error {
	var err error
	if e.size, err = f.Size(); err != nil {
		return err
	}
	e.old = make([]byte, max(0, min(n, e.size-off)))
	if _, err := f.ReadAt(e.old, off); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return f.r.note(*e)
}

func (f *recordedFile) Sync() error {
	return f.r.synced(entry{kind: kindSync, node: f.ino}, f.File.Sync)
}
