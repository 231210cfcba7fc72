package bucket

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
	"slices"
	"sort"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/uplink/durable"
)

// Directory is a Bucket in a file system. An object is written under a temporary name, synced, and linked or renamed to its own.
type Directory struct {
	root string

	mu       sync.Mutex
	prepared []string // directories where temporary files lie
}

// OpenDirectory gives the bucket in a directory. Nothing is touched; the directory is made when something is written.
func OpenDirectory(root string) *Directory { return &Directory{root: root} }

const temporary = ".tmp-"

// Prepare makes dir and removes what killed writers left in it.
func (d *Directory) Prepare(_ context.Context, dir string) error {
	path := d.path(dir)
	if err := durable.MakeDir(path); err != nil {
		return err
	}
	d.mu.Lock()
	if !slices.Contains(d.prepared, dir) {
		d.prepared = append(d.prepared, dir)
	}
	d.mu.Unlock()
	left, err := filepath.Glob(filepath.Join(escapeGlob(path), temporary+"*"))
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

var escapeGlob = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace

func (d *Directory) path(name string) string { return filepath.Join(d.root, filepath.FromSlash(name)) }

// temporaryDir is where the temporary file of a name lies: in the directory that was prepared, where the next start finds it, else
// beside the object.
func (d *Directory) temporaryDir(name string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	best := ""
	for _, dir := range d.prepared {
		if strings.HasPrefix(name, dir) && len(dir) > len(best) {
			best = dir
		}
	}
	if best == "" {
		return filepath.Dir(d.path(name))
	}
	return d.path(best)
}

// Create makes the object by a hard link, which fails on a name that is taken.
func (d *Directory) Create(_ context.Context, name string, body []byte) error {
	path := d.path(name)
	if err := durable.MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	if _, err := os.Lstat(path); err == nil {
		return exists(path)
	}
	tmp, err := writeTemporary(d.temporaryDir(name), body)
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

// Put renames a synced file to the name.
func (d *Directory) Put(_ context.Context, name string, body []byte) error {
	path := d.path(name)
	if err := durable.MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	return d.rename(name, path, body)
}

func (d *Directory) rename(name, path string, body []byte) error {
	tmp, err := writeTemporary(d.temporaryDir(name), body)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(err, os.Remove(tmp))
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
	return ErrExists
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

// Get reads the file.
func (d *Directory) Get(ctx context.Context, name string) ([]byte, string, error) {
	path := d.path(name)
	if info, err := os.Stat(path); err != nil {
		return nil, "", err
	} else if !info.Mode().IsRegular() { // a pipe or a device would never end
		return nil, "", fmt.Errorf("get %s: it is no file", name)
	} else if most := BytesMaxOf(ctx); info.Size() > most {
		return nil, "", fmt.Errorf("get %s: %d bytes, at most %d are expected: %w", name, info.Size(), most, ErrTooLarge)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, "", err
	}
	return b, versionOf(b), nil
}

// GetNewer reads the file all the same: its bytes are its version.
func (d *Directory) GetNewer(ctx context.Context, name, version string) ([]byte, string, error) {
	b, now, err := d.Get(ctx, name)
	if err == nil && now == version {
		return nil, "", fmt.Errorf("get %s: %w", name, ErrUnchanged)
	}
	return b, now, err
}

// versionOf: what is replaced never repeats, each has another count, writer or claim.
func versionOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

const lockSuffix = ".lock"

// Replace compares and renames under a lock.
func (d *Directory) Replace(_ context.Context, name, version string, body []byte) (string, error) {
	path := d.path(name)
	if err := durable.MakeDir(filepath.Dir(path)); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(path+lockSuffix, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return "", err
	}
	defer lock.Close() // releases the lock
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock %s: %w", name, err)
	}
	there, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if version != "" {
			return "", ErrChanged
		}
	case err != nil:
		return "", err
	case versionOf(there) != version:
		return "", ErrChanged
	}
	if err := d.rename(name, path, body); err != nil {
		return "", err
	}
	return versionOf(bytes.Clone(body)), nil
}

// listed is a file that a List has found.
type listed struct {
	name string
	fs.DirEntry
}

// List walks the part of the tree that prefix lies in. Only the files of the page are looked at.
func (d *Directory) List(_ context.Context, prefix, after string) (all []Object, err error) {
	var found []listed
	top := d.path(prefix[:strings.LastIndexByte(prefix, '/')+1])
	err = filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // nothing was written yet, or it was removed meanwhile
			return nil
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(d.root, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if e.IsDir() && name < after && name != "." && !strings.HasPrefix(after, name+"/") && name+"0" <= after { // 0 follows the slash
			return filepath.SkipDir
		}
		if !e.Type().IsRegular() || strings.HasPrefix(e.Name(), temporary) || strings.HasSuffix(name, lockSuffix) || !strings.HasPrefix(name, prefix) || name <= after {
			return nil
		}
		found = append(found, listed{name, e})
		return nil
	})
	if err != nil {
		return nil, err
	}
	sort.Slice(found, func(i, j int) bool { return found[i].name < found[j].name }) // the generic sort would cost the small build 7 KB
	for _, f := range found {
		info, err := f.Info()
		if errors.Is(err, fs.ErrNotExist) { // removed meanwhile; a page that is empty would be the end
			continue
		}
		if err != nil {
			return nil, err
		}
		if all = append(all, Object{f.name, info.Size(), info.ModTime().UnixMilli()}); len(all) == PageMax {
			break
		}
	}
	return all, nil
}

// Delete removes the files. Their directories stay, and are synced.
func (d *Directory) Delete(_ context.Context, names ...string) error {
	dirs := map[string]bool{}
	for _, name := range names {
		path := d.path(name)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		} else if err == nil {
			dirs[filepath.Dir(path)] = true
		}
	}
	for dir := range dirs {
		if err := durable.SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// Close does nothing.
func (d *Directory) Close() error { return nil }
