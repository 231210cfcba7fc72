//go:build !nopebble

package pebblekv

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// severed stands between Pebble and its files. Pebble ends the process when it cannot write its manifest or its log, repeats a flush that failed at once and for ever, and holds its locks meanwhile, so that
// it cannot be closed either. So it never hears of such an error: the first operation that fails to change something severs the disk. From then on nothing reaches it any more, which leaves what a
// power cut at that instant would leave, and Pebble works on in memory until it is closed, which nobody waits long for. Whoever stands on it asks err before he promises anything.
//
// Errors of reading come through: Pebble answers with them. They come late, since a compaction is repeated at once.
type severed struct {
	vfs.FS
	lost vfs.FS // what is made behind the cut

	// waits tells which errors are waited for instead, and is told of each; nil: none. every is how long until it is tried again.
	waits func(error) bool
	every time.Duration

	off bool // planted by a test: Pebble hears of errors

	cut     chan struct{} // closed when it is severed
	reason  atomic.Pointer[error]
	waiting atomic.Pointer[error] // why something waits just now
	once    sync.Once
}

// waitEvery is how often a write that waits for a full disk is tried.
const waitEvery = time.Second

// readErrorPause slows down what tries again at once.
const readErrorPause = 50 * time.Millisecond

func newSevered(files vfs.FS) *severed {
	return &severed{FS: files, lost: vfs.NewMem(), every: waitEvery, cut: make(chan struct{})}
}

// sever ends all changes of the disk, because of an error. The first one stays.
func (s *severed) sever(err error) {
	s.once.Do(func() {
		s.reason.Store(&err)
		close(s.cut)
	})
}

// err is why the disk is severed; nil: it is not.
func (s *severed) err() error {
	if e := s.reason.Load(); e != nil {
		return *e
	}
	return nil
}

// change does something that changes the disk, unless it is severed: done is false then, and when it fails.
func (s *severed) change(what, name string, f func() error) (done bool, err error) {
	for s.err() == nil {
		if err = f(); err == nil {
			if s.waiting.Load() != nil { // with two that wait, the other one says so again
				s.waiting.Store(nil)
			}
			return true, nil
		}
		if s.off {
			return true, err
		}
		err = fmt.Errorf("%s %s: %w", what, name, err)
		if s.waits == nil || !s.waits(err) {
			s.sever(err)
			break
		}
		e := err
		s.waiting.Store(&e)
		select {
		case <-s.cut:
		case <-time.After(s.every):
		}
	}
	return false, nil
}

func (s *severed) Create(name string, w vfs.DiskWriteCategory) (vfs.File, error) {
	var f vfs.File
	done, err := s.change("create", name, func() (err error) { f, err = s.FS.Create(name, w); return err })
	if done {
		return s.file(name, f), err
	}
	if err := s.lost.MkdirAll(s.lost.PathDir(name), 0o700); err != nil {
		return nil, err
	}
	return s.lost.Create(name, w)
}

func (s *severed) Open(name string, o ...vfs.OpenOption) (vfs.File, error) {
	if s.err() != nil {
		if f, err := s.lost.Open(name, o...); err == nil {
			return f, nil
		}
	}
	f, err := s.FS.Open(name, o...)
	if err != nil {
		s.pause(err)
		return nil, err
	}
	return s.file(name, f), nil
}

func (s *severed) OpenReadWrite(name string, w vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	var f vfs.File
	done, err := s.change("open", name, func() (err error) { f, err = s.FS.OpenReadWrite(name, w, o...); return err })
	if done {
		return s.file(name, f), err
	}
	return s.Create(name, w)
}

func (s *severed) ReuseForWrite(from, to string, w vfs.DiskWriteCategory) (vfs.File, error) {
	var f vfs.File
	done, err := s.change("reuse", from, func() (err error) { f, err = s.FS.ReuseForWrite(from, to, w); return err })
	if done {
		return s.file(to, f), err
	}
	return s.Create(to, w)
}

func (s *severed) OpenDir(name string) (vfs.File, error) {
	f, err := s.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return s.file(name, f), nil
}

func (s *severed) Remove(name string) error {
	var missing error // is no failure of the disk
	done, err := s.change("remove", name, func() error {
		err := s.FS.Remove(name)
		if errors.Is(err, fs.ErrNotExist) {
			missing, err = err, nil
		}
		return err
	})
	if done && missing != nil {
		return missing
	}
	if done {
		return err
	}
	if err := s.lost.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (s *severed) RemoveAll(name string) error {
	_, err := s.change("remove", name, func() error { return s.FS.RemoveAll(name) })
	return err
}

func (s *severed) Rename(from, to string) error {
	done, err := s.change("rename", from, func() error { return s.FS.Rename(from, to) })
	if done {
		return err
	}
	if err := s.lost.Rename(from, to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (s *severed) MkdirAll(dir string, perm os.FileMode) error {
	_, err := s.change("make", dir, func() error { return s.FS.MkdirAll(dir, perm) })
	return err
}

func (s *severed) List(dir string) ([]string, error) {
	names, err := s.FS.List(dir)
	if s.err() != nil {
		more, _ := s.lost.List(dir) // there may be no such directory
		names = append(names, more...)
	}
	return names, err
}

func (s *severed) Stat(name string) (vfs.FileInfo, error) {
	if s.err() != nil {
		if i, err := s.lost.Stat(name); err == nil {
			return i, nil
		}
	}
	return s.FS.Stat(name)
}

func (s *severed) Unwrap() vfs.FS { return s.FS }

// pause answers a read that failed late.
func (s *severed) pause(err error) {
	if !errors.Is(err, io.EOF) && !errors.Is(err, fs.ErrNotExist) {
		time.Sleep(readErrorPause)
	}
}

func (s *severed) file(name string, f vfs.File) vfs.File {
	if f == nil {
		return nil
	}
	return &severedFile{File: f, s: s, name: name}
}

// severedFile is a file on the disk. What is written to it behind the cut is lost.
type severedFile struct {
	vfs.File
	s    *severed
	name string
}

func (f *severedFile) Write(p []byte) (int, error) {
	all, done := len(p), 0
	_, err := f.s.change("write", f.name, func() error {
		n, err := f.File.Write(p[done:])
		done += n
		return err
	})
	if err != nil {
		return done, err
	}
	return all, nil
}

func (f *severedFile) WriteAt(p []byte, off int64) (int, error) {
	_, err := f.s.change("write", f.name, func() error { _, err := f.File.WriteAt(p, off); return err })
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *severedFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	if err != nil {
		f.s.pause(err)
	}
	return n, err
}

func (f *severedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if err != nil {
		f.s.pause(err)
	}
	return n, err
}

func (f *severedFile) Sync() error     { return f.synced(f.File.Sync) }
func (f *severedFile) SyncData() error { return f.synced(f.File.SyncData) }

func (f *severedFile) SyncTo(n int64) (full bool, err error) {
	err = f.synced(func() (err error) { full, err = f.File.SyncTo(n); return err })
	return full, err
}

// synced: a sync that failed proves nothing when it is tried again, whatever the error was.
func (f *severedFile) synced(sync func() error) error {
	_, err := f.s.change("sync", f.name, func() error {
		if err := sync(); err != nil {
			return unsure{err}
		}
		return nil
	})
	return err
}

// Preallocate is a hint: where there is no room, the write tells.
func (f *severedFile) Preallocate(off, n int64) error {
	if f.s.err() == nil {
		_ = f.File.Preallocate(off, n)
	}
	return nil
}

func (f *severedFile) Close() error {
	if err := f.File.Close(); err != nil {
		if f.s.off {
			return err
		}
		f.s.sever(fmt.Errorf("close %s: %w", f.name, err))
	}
	return nil
}

// unsure is an error that is not waited for.
type unsure struct{ error }

func (u unsure) Unwrap() error { return u.error }

// roomComes tells which errors go away by themselves without harm: what was not written is written later.
func roomComes(err error) bool {
	if errors.As(err, new(unsure)) {
		return false
	}
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EROFS)
}

// tellEvery is how often the same trouble of Pebble's own work is told.
const tellEvery = 10 * time.Minute

// seldom tells the first error, and the next one behind tellEvery. It waits for nothing: Pebble holds its locks.
func seldom(tell func(error)) func(error) {
	if tell == nil {
		return nil
	}
	began, next := time.Now(), atomic.Int64{}
	return func(err error) {
		now := int64(time.Since(began))
		if due := next.Load(); now >= due && next.CompareAndSwap(due, now+int64(tellEvery)) {
			tell(err)
		}
	}
}
