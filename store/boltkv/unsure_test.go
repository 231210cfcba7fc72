package boltkv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	bolterrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// TestUnsure: what errors of bbolt mean, and that they look so.
func TestUnsure(t *testing.T) {
	write := func(op string, errno syscall.Errno) error {
		return fmt.Errorf("commit: %w", &fs.PathError{Op: op, Path: "x", Err: errno})
	}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false}, {write("write", syscall.ENOSPC), false}, {write("write", syscall.EROFS), false}, {write("truncate", syscall.EDQUOT), false}, {write("write", syscall.EIO), true},
		{syscall.EIO, true}, {syscall.EROFS, true}, {syscall.ENOSPC, true}, {write("sync", syscall.EROFS), true}, // of fdatasync, of a sync
		{errors.New("file sync error: sync x: input/output error"), true}, {errors.New("file resize error: truncate x: no space left on device"), false},
		{bolterrors.ErrMaxSizeReached, false}, {errors.New("of the caller"), false},
	} {
		if got := Unsure(c.err); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
}

// TestErrorsOfFiles: a write as bbolt makes it, that finds no room, says that it was a write.
func TestErrorsOfFiles(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip("NOT TESTED HERE: no /dev/full: ", err)
	}
	defer full.Close()
	_, err = full.WriteAt([]byte("x"), 0) // what bbolt writes with
	var of *fs.PathError
	if !errors.As(err, &of) || of.Op != "write" || !errors.Is(err, unix.ENOSPC) || Unsure(err) {
		t.Errorf("%v", err)
	}
}
