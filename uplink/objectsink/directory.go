package objectsink

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/uplink/durable"
)

// directory is a store in a file system. An object is written beside the others under a temporary name, synced, and linked to its own.
type directory struct{ root string }

const temporary = ".tmp-"

// prepare makes the stream's directory and removes what killed writers left.
func (d *directory) prepare(_ context.Context, dir string) error {
	path := filepath.Join(d.root, filepath.FromSlash(dir))
	if err := durable.MakeDir(path); err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(path, temporary+"*"))
	if err != nil {
		return err
	}
	for _, name := range left {
		// A writer that is alive makes its file anew: its link fails, and it comes again.
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (d *directory) path(name string) string { return filepath.Join(d.root, filepath.FromSlash(name)) }

// streamRoot is the directory of the stream that a name lies in: three elements.
func (d *directory) streamRoot(name string) string {
	p := strings.SplitN(name, "/", 4)
	return filepath.Join(d.root, p[0], p[1], p[2])
}

func (d *directory) create(_ context.Context, name string, body []byte) error {
	path := d.path(name)
	if err := durable.MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		return exists(path)
	}
	tmp, err := writeTemporary(d.streamRoot(name), body)
	if err != nil {
		return err
	}
	err = linkFree(tmp, path)
	if rerr := os.Remove(tmp); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	if errors.Is(err, fs.ErrExist) {
		return exists(path)
	}
	if err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// exists makes what another one put durable before it is relied on.
func exists(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close(), durable.SyncDir(filepath.Dir(path))); err != nil {
		return err
	}
	return errExists
}

// writeTemporary writes and syncs a file of its own in dir.
func writeTemporary(dir string, body []byte) (string, error) {
	f, err := os.CreateTemp(dir, temporary+"*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(body)
	if err == nil {
		err = f.Chmod(0o640)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// linkFree gives tmp its name unless that is taken (fs.ErrExist).
func linkFree(tmp, path string) error {
	err := os.Link(tmp, path)
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) { // no hard links here
		err = unix.Renameat2(unix.AT_FDCWD, tmp, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE)
	}
	return err
}

func (d *directory) read(_ context.Context, name string) ([]byte, string, error) {
	b, err := os.ReadFile(d.path(name))
	if err != nil {
		return nil, "", err
	}
	return b, versionOf(b), nil
}

// versionOf: heads never repeat, each has another count, writer or claim.
func versionOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// replace compares and renames under a lock.
func (d *directory) replace(_ context.Context, name, version string, body []byte) (string, error) {
	path := d.path(name)
	lock, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return "", err
	}
	defer lock.Close() // releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock head: %w", err)
	}
	there, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if version != "" {
			return "", errChanged
		}
	case err != nil:
		return "", err
	case versionOf(there) != version:
		return "", errChanged
	}
	tmp, err := writeTemporary(filepath.Dir(path), body)
	if err != nil {
		return "", err
	}
	if err := os.Rename(tmp, path); err != nil {
		return "", errors.Join(err, os.Remove(tmp))
	}
	return versionOf(bytes.Clone(body)), durable.SyncDir(filepath.Dir(path))
}

func (d *directory) list(_ context.Context, dir string) (all []listed, err error) {
	root := d.path(dir)
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		all = append(all, listed{filepath.ToSlash(rel), info.Size()})
		return err
	})
	return all, err
}

func (d *directory) close() {}
