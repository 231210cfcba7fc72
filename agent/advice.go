package agent

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
)

// advices say what the operator can do about a disk, by the error that it gives.
var advices = [...]struct {
	err  syscall.Errno
	what string
}{
	{syscall.ENOSPC, "free space on the disk of state_dir (df; du -x); weir goes on by itself"},
	{syscall.EDQUOT, "raise the quota, or free space; weir goes on by itself"},
	{syscall.EROFS, "the file system of state_dir is read-only: dmesg says why; after an error of the device it takes a check (stop weir, fsck) or a reboot"},
	{syscall.EACCES, "the user that weir runs as may not: was something made there by another one? chown -R to the user of the service, for example: chown -R weir: /var/lib/weir"},
	{syscall.EIO, "the device of state_dir fails: dmesg, then fsck; if it happens again, replace the medium"},
}

// ofDisk tells whether an error is one of the disk's, not one of what lies on it.
func ofDisk(err error) bool {
	for _, a := range advices {
		if errors.Is(err, a.err) {
			return true
		}
	}
	return false
}

// advise adds what to do to an error of the disk; any other stays as it is.
func advise(err error) error {
	for _, a := range advices {
		if file := (*fs.PathError)(nil); a.err == syscall.EACCES && !errors.As(err, &file) { // of a port
			continue
		}
		if errors.Is(err, a.err) {
			return advisedError{err, a.what}
		}
	}
	return err
}

// adviceOn is the same for an error that is a text by now; "" when it is none of the disk.
func adviceOn(text string) string {
	for _, a := range advices {
		if strings.HasSuffix(text, a.err.Error()) {
			return a.what
		}
	}
	return ""
}

type advisedError struct {
	error
	what string
}

func (e advisedError) Error() string { return e.error.Error() + "; " + e.what }

func (e advisedError) Unwrap() error { return e.error }
