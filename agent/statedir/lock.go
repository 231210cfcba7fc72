// Package statedir is what a process settles of its state_dir before anything else: that it holds it alone, as the user that it belongs to, under which name the gateway is known, and which UUIDs name the state
// of its pipelines; and the small files in their directories that say where a pipeline stood.
package statedir

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrLocked: another process works on the same state_dir.
var ErrLocked = errors.New("state_dir is in use by another weir process")

// Lock holds state_dir for this process. The kernel drops it when the process dies, however it dies.
type Lock struct {
	file *os.File
	User int // who the process has become for it; 0: nobody
}

// Acquire creates state_dir when missing, takes its lock and signs it. ErrLocked names the holder's process id. Root becomes the user that state_dir belongs to.
func Acquire(dir string) (*Lock, error) {
	l, err := AcquireUnsigned(dir)
	if err == nil {
		l.Sign()
	}
	return l, err
}

// AcquireUnsigned is Acquire that writes nothing where the lock is there already: a start that fails, again and again, is to wear no flash.
func AcquireUnsigned(dir string) (*Lock, error) {
	user := becomeOwner(dir)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("create state_dir: %w", err)
	}
	name := filepath.Join(dir, "lock")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		holder, _ := os.ReadFile(name) // only for the message
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s is held by process %s; stop it first", ErrLocked, dir, strings.TrimSpace(string(holder)))
		}
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return &Lock{file: f, User: user}, nil
}

// Sign writes this process's id, for people; the lock itself is the kernel's. Until then the file has the one of whoever held it before.
func (l *Lock) Sign() {
	if err := l.file.Truncate(0); err == nil {
		fmt.Fprintf(l.file, "%d\n", os.Getpid())
	}
}

// Close frees the lock.
func (l *Lock) Close() error { return l.file.Close() }
