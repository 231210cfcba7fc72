package disktest

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/weirstream/weir/store/disk"
)

// Op is a kind of operation that changes something.
type Op uint8

// The operations that Pressed counts.
const (
	OpCreate Op = iota
	OpOpen
	OpRename
	OpRemove
	OpMkdir
	OpSyncDir
	OpWrite
	OpSync
	OpTruncate
)

var opNames = [...]string{"create", "open", "rename", "remove", "mkdir", "sync directory", "write", "sync", "truncate"}

func (o Op) String() string { return opNames[o] }

// Pressure is what a device does under it: which operations fail, and how.
type Pressure struct {
	Name string
	Err  syscall.Errno
	Hits func(Op) bool
}

// The pressures that a gateway's medium knows. Full fails also where a file is overwritten in place: so does a file system that copies on write.
var (
	Full      = Pressure{"full", syscall.ENOSPC, func(o Op) bool { return o == OpCreate || o == OpWrite || o == OpMkdir || o == OpRename }}
	FailWrite = Pressure{"write fails", syscall.EIO, func(o Op) bool { return o == OpWrite || o == OpTruncate }}
	FailSync  = Pressure{"sync fails", syscall.EIO, func(o Op) bool { return o == OpSync || o == OpSyncDir }}
	FailAll   = Pressure{"device fails", syscall.EIO, func(o Op) bool { return o != OpOpen }}
	ReadOnly  = Pressure{"read-only", syscall.EROFS, func(o Op) bool { return o != OpSync && o != OpSyncDir }}
	Aborted   = Pressure{"aborted", syscall.EROFS, func(Op) bool { return true }}
)

// Pressed wraps a file system and counts what is done below directories under test; from a chosen operation on a Strain makes them fail. It also keeps watch for what must
// never be done: a file is used on, or synced again, though a sync of it failed.
type Pressed struct {
	disk.FS
	mu      sync.Mutex
	strains []*Strain
}

// Press wraps fsys. Nothing fails, and nothing is counted, outside of directories that Below names.
func Press(fsys disk.FS) *Pressed { return &Pressed{FS: fsys} }

// Strain is what happens to one directory and all below it. It is safe for use by several goroutines.
type Strain struct {
	dir string

	mu       sync.Mutex
	ops      int // so far, of those that the pressure hits
	names    []string
	pressure Pressure
	from     int // the first operation that fails, counted from 1; 0: none
	left     int // so many fail; below 0: until Heal
	failed   map[string]int
	misused  []string
}

// Below begins to watch a directory.
func (p *Pressed) Below(dir string) *Strain {
	s := &Strain{dir: filepath.Clean(dir), failed: map[string]int{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.strains = append(p.strains, s)
	return s
}

// of gives the innermost strain that a path lies under, nil when there is none.
func (p *Pressed) of(path string) *Strain {
	path = filepath.Clean(path)
	p.mu.Lock()
	defer p.mu.Unlock()
	var inner *Strain
	for _, s := range p.strains {
		if (path == s.dir || strings.HasPrefix(path, s.dir+"/")) && (inner == nil || len(s.dir) > len(inner.dir)) {
			inner = s
		}
	}
	return inner
}

// Fail makes the k-th operation from now that the pressure hits fail, and those behind it until times have; below 0: until Heal.
func (s *Strain) Fail(pressure Pressure, k, times int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pressure, s.from, s.left = pressure, k, times
	s.ops, s.names = 0, nil
	clear(s.failed)
}

// Heal ends it.
func (s *Strain) Heal() { s.mu.Lock(); defer s.mu.Unlock(); s.from = 0 }

// Ops are the operations since Fail that the pressure hits, each with its path below the directory.
func (s *Strain) Ops() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.names...)
}

// Failed is how many operations failed since Fail, by kind and path.
func (s *Strain) Failed() (total int, by map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	by = map[string]int{}
	for k, n := range s.failed {
		by[k], total = n, total+n
	}
	return total, by
}

// Misused tells what was done with files after a sync of them had failed.
func (s *Strain) Misused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.misused...)
}

// meet counts an operation and gives the error that it meets.
func (s *Strain) meet(op Op, path string) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pressure.Hits == nil || !s.pressure.Hits(op) {
		return nil
	}
	s.ops++
	what := op.String() + " " + strings.TrimPrefix(strings.TrimPrefix(path, s.dir), "/")
	s.names = append(s.names, what)
	if s.from == 0 || s.ops < s.from || s.left == 0 {
		return nil
	}
	s.left--
	s.failed[what]++
	return &fs.PathError{Op: op.String(), Path: path, Err: s.pressure.Err} // as os.File's are
}

// Create implements disk.FS.
func (p *Pressed) Create(name string) (disk.File, error) {
	s := p.of(name)
	if err := s.meet(OpCreate, name); err != nil {
		return nil, err
	}
	f, err := p.FS.Create(name)
	if err != nil || s == nil {
		return f, err
	}
	return &pressedFile{File: f, s: s, name: name}, nil
}

// Open implements disk.FS.
func (p *Pressed) Open(name string) (disk.File, error) {
	s := p.of(name)
	if err := s.meet(OpOpen, name); err != nil {
		return nil, err
	}
	f, err := p.FS.Open(name)
	if err != nil || s == nil {
		return f, err
	}
	return &pressedFile{File: f, s: s, name: name}, nil
}

// Rename implements disk.FS.
func (p *Pressed) Rename(old, new string) error {
	if err := p.of(new).meet(OpRename, new); err != nil {
		return err
	}
	return p.FS.Rename(old, new)
}

// Remove implements disk.FS.
func (p *Pressed) Remove(name string) error {
	if err := p.of(name).meet(OpRemove, name); err != nil {
		return err
	}
	return p.FS.Remove(name)
}

// MkdirAll implements disk.FS. What is there already is not made, whatever the device does.
func (p *Pressed) MkdirAll(dir string) error {
	if s := p.of(dir); s != nil {
		if _, err := p.FS.List(dir); err != nil {
			if err := s.meet(OpMkdir, dir); err != nil {
				return err
			}
		}
	}
	return p.FS.MkdirAll(dir)
}

// SyncDir implements disk.FS.
func (p *Pressed) SyncDir(dir string) error {
	if err := p.of(dir).meet(OpSyncDir, dir); err != nil {
		return err
	}
	return p.FS.SyncDir(dir)
}

// Free implements disk.FS: nothing, while the device is full.
func (p *Pressed) Free(dir string) (int64, error) {
	if s := p.of(dir); s != nil && s.full() {
		return 0, nil
	}
	return p.FS.Free(dir)
}

func (s *Strain) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pressure.Err == syscall.ENOSPC && s.from > 0 && s.ops >= s.from && s.left != 0
}

type pressedFile struct {
	disk.File
	s    *Strain
	name string

	mu   sync.Mutex
	lost bool // a sync failed
}

// misuse notes an operation on a file whose content is not known any more.
func (f *pressedFile) misuse(op Op) {
	f.mu.Lock()
	lost := f.lost
	f.mu.Unlock()
	if !lost {
		return
	}
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.s.misused = append(f.s.misused, fmt.Sprintf("%s %s behind a sync of it that failed", op, f.name))
}

// WriteAt implements disk.File.
func (f *pressedFile) WriteAt(p []byte, off int64) (int, error) {
	f.misuse(OpWrite)
	if err := f.s.meet(OpWrite, f.name); err != nil {
		return 0, err
	}
	return f.File.WriteAt(p, off)
}

// Truncate implements disk.File.
func (f *pressedFile) Truncate(size int64) error {
	f.misuse(OpTruncate)
	if err := f.s.meet(OpTruncate, f.name); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

// Sync implements disk.File.
func (f *pressedFile) Sync() error {
	f.misuse(OpSync)
	if err := f.s.meet(OpSync, f.name); err != nil {
		f.mu.Lock()
		f.lost = true
		f.mu.Unlock()
		if m, ok := f.File.(*memFile); ok { // it forgets what was to be synced, as Linux does
			m.m.FailSyncs(1)
			_ = m.Sync()
		}
		return err
	}
	return f.File.Sync()
}
