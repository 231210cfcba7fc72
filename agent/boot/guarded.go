package boot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/store/disk"
)

// errStrange: what lies there is not what may lie there: a link, a pipe, a device, a file that is too large, one of somebody else.
var errStrange = errors.New("not a plain file of a fitting size")

// openGuarded opens a file below base for reading, where base/ is a stranger's. No link is followed below base, and nothing but a regular file of at most sizeMax bytes is opened: looking at it first by O_PATH has no effect on a
// pipe or a device.
func openGuarded(base, name string, sizeMax int64) (*os.File, error) {
	path := filepath.Join(base, name)
	dir, err := unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: base, Err: err}
	}
	parts := strings.Split(filepath.ToSlash(name), "/")
	for i, part := range parts {
		if part == "" || part == "." || part == ".." {
			unix.Close(dir)
			return nil, fmt.Errorf("open %s: %w", path, errStrange)
		}
		flags := unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
		if i < len(parts)-1 {
			flags |= unix.O_DIRECTORY
		}
		next, err := unix.Openat(dir, part, flags, 0)
		unix.Close(dir)
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
			return nil, fmt.Errorf("open %s: %w", path, errStrange)
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		dir = next
	}
	defer unix.Close(dir)
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size > sizeMax {
		return nil, fmt.Errorf("open %s: %w", path, errStrange)
	}
	f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", dir), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0) // the same inode, whatever its name is by now
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return f, nil
}

// readGuarded reads a whole file that openGuarded opens. One that grows meanwhile is refused.
func readGuarded(base, name string, sizeMax int64) ([]byte, error) {
	f, err := openGuarded(base, name, sizeMax)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, sizeMax+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(base, name), err)
	}
	if int64(len(b)) > sizeMax {
		return nil, fmt.Errorf("read %s: %w", filepath.Join(base, name), errStrange)
	}
	return b, nil
}

// guardedFS has a stranger's directory read by code that knows a disk.FS. It writes nothing.
type guardedFS struct {
	base    string
	sizeMax int64
}

var _ disk.FS = guardedFS{}

func (g guardedFS) Open(name string) (disk.File, error) {
	below, err := filepath.Rel(g.base, name)
	if err != nil {
		return nil, err
	}
	f, err := openGuarded(g.base, below, g.sizeMax)
	if err != nil {
		return nil, err
	}
	return guardedFile{f}, nil
}

// List gives what there may be of a directory that is no link: at most listMax names.
func (g guardedFS) List(dir string) ([]string, error) {
	const listMax = 4096
	below, err := filepath.Rel(g.base, dir)
	if err != nil {
		return nil, err
	}
	fd, err := unix.Open(g.base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: g.base, Err: err}
	}
	for part := range strings.SplitSeq(filepath.ToSlash(below), "/") {
		next, err := unix.Openat(fd, part, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		unix.Close(fd)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
		}
		fd = next
	}
	d := os.NewFile(uintptr(fd), dir)
	defer d.Close()
	names, err := d.Readdirnames(listMax)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

func (guardedFS) Create(name string) (disk.File, error) { return nil, denied("create", name) }
func (guardedFS) Rename(old, _ string) error            { return denied("rename", old) }
func (guardedFS) Remove(name string) error              { return denied("remove", name) }
func (guardedFS) MkdirAll(dir string) error             { return denied("mkdir", dir) }
func (guardedFS) SyncDir(dir string) error              { return denied("sync", dir) }
func (guardedFS) Free(dir string) (int64, error)        { return 0, denied("statfs", dir) }

func denied(op, name string) error {
	return &fs.PathError{Op: op, Path: name, Err: syscall.EROFS}
}

type guardedFile struct{ *os.File }

func (f guardedFile) WriteAt([]byte, int64) (int, error) { return 0, denied("write", f.Name()) }
func (f guardedFile) Sync() error                        { return denied("sync", f.Name()) }
func (f guardedFile) Truncate(int64) error               { return denied("truncate", f.Name()) }

func (f guardedFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
