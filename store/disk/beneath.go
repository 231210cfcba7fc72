package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Beneath is the real file system below a directory that somebody else may write to, for a process that may more than he: no link is followed on the way, files are regular ones with one name. root itself
// is trusted, and is found as ever. Names begin with root. (openat(2), component by component: openat2 is missing before Linux 5.6.)
func Beneath(root string) FS { return beneath{filepath.Clean(root)} }

type beneath struct{ root string }

// dir opens the directory of a name, without a right to read it. The caller closes it.
func (b beneath) dir(name string) (fd int, base string, err error) {
	rel, err := filepath.Rel(b.root, filepath.Clean(name))
	if err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
		return -1, "", fmt.Errorf("%s is not below %s: %w", name, b.root, fs.ErrInvalid)
	}
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC
	if fd, err = unix.Open(b.root, flags, 0); err != nil {
		return -1, "", &fs.PathError{Op: "open", Path: b.root, Err: err}
	}
	parts := strings.Split(rel, "/")
	for _, part := range parts[:len(parts)-1] {
		next, err := unix.Openat(fd, part, flags|unix.O_NOFOLLOW, 0)
		_ = unix.Close(fd)
		if err != nil {
			return -1, "", &fs.PathError{Op: "open", Path: name, Err: err}
		}
		fd = next
	}
	return fd, parts[len(parts)-1], nil
}

// at does something with the directory of a name and its base.
func (b beneath) at(op, name string, f func(fd int, base string) error) error {
	fd, base, err := b.dir(name)
	if err != nil {
		return err
	}
	err = f(fd, base)
	_ = unix.Close(fd)
	if err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}

func (b beneath) open(op, name string, flags int) (*os.File, error) {
	var file *os.File
	err := b.at(op, name, func(fd int, base string) error {
		got, err := unix.Openat(fd, base, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o640) // a pipe must not hold us
		if err == nil {
			file = os.NewFile(uintptr(got), name)
		}
		return err
	})
	return file, err
}

// errNotOne: a device, a pipe, or a file that has a second name.
var errNotOne = errors.New("it is no regular file with one name")

func (b beneath) file(op, name string, flags int) (File, error) {
	f, err := b.open(op, name, flags)
	if err != nil {
		return nil, err
	}
	var s unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &s)
	if err == nil && (s.Mode&unix.S_IFMT != unix.S_IFREG || s.Nlink > 1) {
		err = errNotOne
	}
	if err != nil {
		return nil, errors.Join(&fs.PathError{Op: op, Path: name, Err: err}, f.Close())
	}
	return osFile{f, s.Nlink > 0}, nil
}

func (b beneath) Create(name string) (File, error) {
	return b.file("create", name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
}

func (b beneath) Open(name string) (File, error) { return b.file("open", name, unix.O_RDWR) }

func (b beneath) Rename(old, new string) error {
	return b.at("rename", old, func(from int, base string) error {
		return b.at("rename", new, func(to int, as string) error { return unix.Renameat(from, base, to, as) })
	})
}

func (b beneath) Remove(name string) error {
	return b.at("remove", name, func(fd int, base string) error { return unix.Unlinkat(fd, base, 0) })
}

func (b beneath) MkdirAll(dir string) error {
	if filepath.Clean(dir) == b.root {
		return nil
	}
	made := b.at("mkdir", dir, func(fd int, base string) error { return unix.Mkdirat(fd, base, 0o750) })
	if errors.Is(made, fs.ErrNotExist) {
		if err := b.MkdirAll(filepath.Dir(dir)); err != nil {
			return err
		}
		made = b.at("mkdir", dir, func(fd int, base string) error { return unix.Mkdirat(fd, base, 0o750) })
	}
	switch {
	case made == nil:
		return b.SyncDir(filepath.Dir(dir))
	case errors.Is(made, fs.ErrExist):
		_, err := b.List(dir) // a link to a directory is none
		return err
	}
	return made
}

// directory opens a directory for reading.
func (b beneath) directory(dir string) (*os.File, error) {
	if filepath.Clean(dir) == b.root {
		return os.Open(b.root)
	}
	return b.open("open", dir, unix.O_RDONLY|unix.O_DIRECTORY)
}

func (b beneath) SyncDir(dir string) error {
	d, err := b.directory(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (b beneath) List(dir string) ([]string, error) {
	d, err := b.directory(dir)
	if err != nil {
		return nil, err
	}
	names, err := d.Readdirnames(-1)
	slices.Sort(names)
	return names, errors.Join(err, d.Close())
}

func (b beneath) Free(dir string) (int64, error) {
	d, err := b.directory(dir)
	if err != nil {
		return 0, err
	}
	var s unix.Statfs_t
	if err := errors.Join(unix.Fstatfs(int(d.Fd()), &s), d.Close()); err != nil {
		return 0, fmt.Errorf("ask free space of %s: %w", dir, err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
