package disk

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
)

// Overlay is a file system whose changes stay in memory: what lies beneath is read and never written. A recovery runs over it to tell what it
// would do. It holds the pages that were written, and the files beneath that were opened until Close.
type Overlay struct {
	base FS

	mu    sync.Mutex
	names map[string]*overlaid // files opened or made; nil: removed
	dirs  map[string]bool      // made
	under []File               // opened beneath
}

var _ FS = (*Overlay)(nil)

// NewOverlay lays an empty overlay over a file system.
func NewOverlay(base FS) *Overlay {
	return &Overlay{base: base, names: map[string]*overlaid{}, dirs: map[string]bool{}}
}

// overlayPage is how much is copied at a first write.
const overlayPage = 4 << 10

// overlaid is a file: pages that were written, above a file beneath of which the first bytes count.
type overlaid struct {
	mu    sync.Mutex
	base  File  // nil: made here
	below int64 // bytes of base that are still seen
	size  int64
	pages map[int64][]byte
}

// find gives the file of a name. mu is held.
func (o *Overlay) find(name string) (*overlaid, error) {
	name = filepath.Clean(name)
	if f, known := o.names[name]; known {
		if f == nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return f, nil
	}
	b, err := o.base.Open(name)
	if err != nil {
		return nil, err
	}
	size, err := b.Size()
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	f := &overlaid{base: b, below: size, size: size, pages: map[int64][]byte{}}
	o.names[name], o.under = f, append(o.under, b)
	return f, nil
}

// Create implements FS.
func (o *Overlay) Create(name string) (File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch _, err := o.find(name); {
	case err == nil:
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	f := &overlaid{pages: map[int64][]byte{}}
	o.names[filepath.Clean(name)] = f
	return overlayHandle{f}, nil
}

// Open implements FS.
func (o *Overlay) Open(name string) (File, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	f, err := o.find(name)
	if err != nil {
		return nil, err
	}
	return overlayHandle{f}, nil
}

// Rename implements FS, of files.
func (o *Overlay) Rename(old, new string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	f, err := o.find(old)
	if err != nil {
		return err
	}
	o.names[filepath.Clean(old)] = nil
	o.names[filepath.Clean(new)] = f
	return nil
}

// Remove implements FS, of files.
func (o *Overlay) Remove(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.find(name); err != nil {
		return err
	}
	o.names[filepath.Clean(name)] = nil
	return nil
}

// MkdirAll implements FS.
func (o *Overlay) MkdirAll(dir string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for d := filepath.Clean(dir); !o.dirs[d]; d = filepath.Dir(d) {
		if _, err := o.base.List(d); err == nil {
			return nil
		}
		o.dirs[d] = true
		if d == filepath.Dir(d) {
			return nil
		}
	}
	return nil
}

// SyncDir implements FS.
func (o *Overlay) SyncDir(dir string) error {
	_, err := o.List(dir)
	return err
}

// List implements FS.
func (o *Overlay) List(dir string) ([]string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	dir = filepath.Clean(dir)
	below, err := o.base.List(dir)
	if err != nil && !(o.dirs[dir] && errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	all := map[string]bool{}
	for _, n := range below {
		all[n] = true
	}
	for name, f := range o.names {
		if filepath.Dir(name) == dir {
			all[filepath.Base(name)] = f != nil
		}
	}
	for d := range o.dirs {
		if filepath.Dir(d) == dir && d != dir {
			all[filepath.Base(d)] = true
		}
	}
	maps.DeleteFunc(all, func(_ string, there bool) bool { return !there })
	return slices.Sorted(maps.Keys(all)), nil
}

// Free implements FS: that of the nearest directory that is there.
func (o *Overlay) Free(dir string) (int64, error) {
	for {
		n, err := o.base.Free(dir)
		if err == nil || !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			return n, err
		}
		dir = filepath.Dir(dir)
	}
}

// Close closes what was opened beneath. Nothing of the overlay may be used afterwards.
func (o *Overlay) Close() (err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.under {
		err = errors.Join(err, f.Close())
	}
	o.under, o.names = nil, nil
	return err
}

// overlayHandle is an open file.
type overlayHandle struct{ f *overlaid }

func (h overlayHandle) ReadAt(p []byte, off int64) (int, error) {
	f := h.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if off < 0 {
		return 0, fmt.Errorf("read at %d: %w", off, fs.ErrInvalid)
	}
	n := int(max(min(int64(len(p)), f.size-off), 0))
	if err := f.read(p[:n], off); err != nil {
		return 0, err
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// read fills p from what lies within the file. What is beneath is read in one go, then the pages are laid over it.
func (f *overlaid) read(p []byte, off int64) error {
	clear(p)
	if n := min(int64(len(p)), f.below-off); f.base != nil && n > 0 {
		if m, err := f.base.ReadAt(p[:n], off); err != nil && (m < int(n) || !errors.Is(err, io.EOF)) {
			return err
		}
	}
	for at := off - off%overlayPage; at < off+int64(len(p)); at += overlayPage {
		page := f.pages[at]
		if page == nil {
			continue
		}
		if at < off {
			copy(p, page[off-at:])
		} else {
			copy(p[at-off:], page)
		}
	}
	return nil
}

func (h overlayHandle) WriteAt(p []byte, off int64) (n int, err error) {
	f := h.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if off < 0 {
		return 0, fmt.Errorf("write at %d: %w", off, fs.ErrInvalid)
	}
	for n < len(p) {
		at := (off + int64(n)) / overlayPage * overlayPage
		page := f.pages[at]
		if page == nil {
			page = make([]byte, overlayPage)
			if have := min(int64(overlayPage), f.size-at); have > 0 {
				if err := f.read(page[:have], at); err != nil {
					return n, err
				}
			}
			f.pages[at] = page
		}
		n += copy(page[off+int64(n)-at:], p[n:])
	}
	f.size = max(f.size, off+int64(n))
	return n, nil
}

func (h overlayHandle) Truncate(size int64) error {
	f := h.f
	f.mu.Lock()
	defer f.mu.Unlock()
	f.size, f.below = size, min(f.below, size)
	for at, page := range f.pages {
		switch {
		case at >= size:
			delete(f.pages, at)
		case at+overlayPage > size:
			clear(page[size-at:])
		}
	}
	return nil
}

func (h overlayHandle) Size() (int64, error) {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	return h.f.size, nil
}

func (overlayHandle) Sync() error  { return nil }
func (overlayHandle) Close() error { return nil }
