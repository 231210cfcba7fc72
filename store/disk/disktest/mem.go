// Package disktest has the doubles of disk.FS: Mem, an in-memory file system that knows what a power cut may leave, and
// Faulty, which runs out of space and fails.
package disktest

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/weirstream/weir/store/disk"
)

// SectorBytes is the unit that a write is torn at.
const SectorBytes = 512

// PageBytes is the unit that Pages counts.
const PageBytes = 4096

// Mem is a file system in memory. It keeps, beside what a process sees, what is durable and the writes and name changes since.
// Directories are durable once made. It is safe for use by several goroutines.
type Mem struct {
	mu      sync.Mutex
	names   map[string]*inode // what a process sees
	durable map[string]*inode // what survives for certain
	changes []nameChange      // names changed and not yet synced, in order
	groups  int
	dirs    map[string]bool
	pages   int64
	free    int64
	failing int // Syncs that fail from now on

	hook func(op string)
}

// inode is a file: data is what a process sees, durable what the last Sync left.
type inode struct {
	data    []byte
	durable []byte
	pending []write
}

// write is one not yet durable write, or a truncation to off when trunc is set.
type write struct {
	off   int64
	data  []byte
	trunc bool
}

// nameChange makes path point to node, nil: to nothing. A rename is two of them in one group: both or none.
type nameChange struct {
	path  string
	node  *inode
	group int
}

// NewMem gives an empty file system with plenty of space.
func NewMem() *Mem {
	return &Mem{names: map[string]*inode{}, durable: map[string]*inode{}, dirs: map[string]bool{"/": true, ".": true}, free: 1 << 40}
}

// OnOp sets the hook: f is called, in the goroutine of the operation and without locks held, after each change and right before
// each sync takes effect.
func (m *Mem) OnOp(f func(op string)) { m.mu.Lock(); m.hook = f; m.mu.Unlock() }

// Pages is the number of 4 KiB pages that syncs have written so far: what reaches the device, less the file system's own journal.
func (m *Mem) Pages() int64 { m.mu.Lock(); defer m.mu.Unlock(); return m.pages }

// FailSyncs makes the next n calls of Sync fail as Linux does: the pages count as clean; what was in them stays visible, is not
// durable, and is not written by a later Sync.
func (m *Mem) FailSyncs(n int) { m.mu.Lock(); m.failing = n; m.mu.Unlock() }

// SetFree sets what Free tells.
func (m *Mem) SetFree(n int64) { m.mu.Lock(); m.free = n; m.mu.Unlock() }

func (m *Mem) told(op string) {
	m.mu.Lock()
	f := m.hook
	m.mu.Unlock()
	if f != nil {
		f(op)
	}
}

// change records name changes that happen together. m.mu is held.
func (m *Mem) change(list ...nameChange) {
	m.groups++
	for _, c := range list {
		c.group = m.groups
		m.changes = append(m.changes, c)
		if c.node == nil {
			delete(m.names, c.path)
		} else {
			m.names[c.path] = c.node
		}
	}
}

// Create implements disk.FS.
func (m *Mem) Create(name string) (disk.File, error) {
	name = filepath.Clean(name)
	m.mu.Lock()
	if m.names[name] != nil || !m.dirs[filepath.Dir(name)] {
		err := fs.ErrNotExist
		if m.names[name] != nil {
			err = fs.ErrExist
		}
		m.mu.Unlock()
		return nil, fmt.Errorf("create %s: %w", name, err)
	}
	n := &inode{}
	m.change(nameChange{path: name, node: n})
	m.mu.Unlock()
	m.told("create " + name)
	return &memFile{m: m, n: n, name: name}, nil
}

// Open implements disk.FS.
func (m *Mem) Open(name string) (disk.File, error) {
	name = filepath.Clean(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.names[name]
	if n == nil {
		return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
	}
	return &memFile{m: m, n: n, name: name}, nil
}

// Rename implements disk.FS.
func (m *Mem) Rename(old, new string) error {
	old, new = filepath.Clean(old), filepath.Clean(new)
	m.mu.Lock()
	n := m.names[old]
	if n == nil {
		m.mu.Unlock()
		return fmt.Errorf("rename %s: %w", old, fs.ErrNotExist)
	}
	m.change(nameChange{path: new, node: n}, nameChange{path: old})
	m.mu.Unlock()
	m.told("rename " + new)
	return nil
}

// Remove implements disk.FS.
func (m *Mem) Remove(name string) error {
	name = filepath.Clean(name)
	m.mu.Lock()
	if m.names[name] == nil {
		m.mu.Unlock()
		return fmt.Errorf("remove %s: %w", name, fs.ErrNotExist)
	}
	m.change(nameChange{path: name})
	m.mu.Unlock()
	m.told("remove " + name)
	return nil
}

// MkdirAll implements disk.FS.
func (m *Mem) MkdirAll(dir string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for d := filepath.Clean(dir); !m.dirs[d]; d = filepath.Dir(d) {
		m.dirs[d] = true
	}
	return nil
}

// SyncDir implements disk.FS.
func (m *Mem) SyncDir(dir string) error {
	dir = filepath.Clean(dir)
	m.told("before sync of directory " + dir)
	m.mu.Lock()
	var rest []nameChange
	for _, c := range m.changes {
		switch {
		case filepath.Dir(c.path) != dir:
			rest = append(rest, c)
		case c.node == nil:
			delete(m.durable, c.path)
		default:
			m.durable[c.path] = c.node
		}
	}
	m.changes = rest
	m.mu.Unlock()
	m.told("sync directory " + dir)
	return nil
}

// List implements disk.FS.
func (m *Mem) List(dir string) ([]string, error) {
	dir = filepath.Clean(dir)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.dirs[dir] {
		return nil, fmt.Errorf("list %s: %w", dir, fs.ErrNotExist)
	}
	var names []string
	for name := range m.names {
		if filepath.Dir(name) == dir {
			names = append(names, filepath.Base(name))
		}
	}
	for d := range m.dirs {
		if d != dir && filepath.Dir(d) == dir {
			names = append(names, filepath.Base(d))
		}
	}
	slices.Sort(names)
	return names, nil
}

// Free implements disk.FS.
func (m *Mem) Free(string) (int64, error) { m.mu.Lock(); defer m.mu.Unlock(); return m.free, nil }

// Flip inverts one bit of a file, also on the device: damage, as flash does it.
func (m *Mem) Flip(name string, off int64, bit uint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n := m.names[filepath.Clean(name)]
	n.data[off] ^= 1 << bit
	if off < int64(len(n.durable)) {
		n.durable[off] ^= 1 << bit
	}
}

// Names are all files, sorted.
func (m *Mem) Names() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.names))
}

type memFile struct {
	m    *Mem
	n    *inode
	name string
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	if off >= int64(len(f.n.data)) {
		return 0, io.EOF
	}
	n := copy(p, f.n.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	f.pend(write{off: off, data: slices.Clone(p)})
	f.m.told("write " + f.name)
	return len(p), nil
}

func (f *memFile) Truncate(size int64) error {
	f.pend(write{off: size, trunc: true})
	f.m.told("truncate " + f.name)
	return nil
}

func (f *memFile) pend(w write) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	f.n.data = w.apply(f.n.data)
	f.n.pending = append(f.n.pending, w)
}

// apply does the write on b, growing it with zeros.
func (w *write) apply(b []byte) []byte {
	end := w.off + int64(len(w.data))
	if w.trunc && int64(len(b)) > end {
		return b[:end:end]
	}
	if int64(len(b)) < end {
		b = append(b, make([]byte, end-int64(len(b)))...)
	}
	copy(b[w.off:], w.data)
	return b
}

func (f *memFile) Sync() error {
	f.m.told("before sync of " + f.name)
	f.m.mu.Lock()
	if f.m.failing > 0 {
		f.m.failing--
		f.n.pending = nil
		f.m.mu.Unlock()
		return fmt.Errorf("sync %s: %w", f.name, syscall.EIO)
	}
	touched := map[int64]bool{}
	for i := range f.n.pending {
		w := &f.n.pending[i]
		for p := w.off / PageBytes; len(w.data) > 0 && p <= (w.off+int64(len(w.data))-1)/PageBytes; p++ {
			touched[p] = true
		}
		f.n.durable = w.apply(f.n.durable)
	}
	f.m.pages += int64(len(touched))
	f.n.pending = nil
	f.m.mu.Unlock()
	f.m.told("sync " + f.name)
	return nil
}

func (f *memFile) Size() (int64, error) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return int64(len(f.n.data)), nil
}

func (f *memFile) Close() error { return nil }
