package boltkv

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
)

var (
	// ErrLocked: another process holds the file. It is not damaged.
	ErrLocked = errors.New("database is locked by another process")
	// ErrCorrupt: the file is not a whole bbolt database. It was not mapped and nothing was changed; SetAside moves it away.
	ErrCorrupt = errors.New("database is corrupt")
)

// growSyncFailed begins what bbolt says when it cannot sync a file that it has made longer: as text alone (db.go, grow).
const growSyncFailed = "file sync error"

// Unsure tells, of an error of Update that came from the disk, that nothing is known of what lies there now: a sync failed, with whatever error (an ext4 that the kernel has given up says EROFS), or a write
// did with one that is not about room. The DB is to be closed and opened again. Not so when a write found no room, or a file system that takes none: it ended before the transaction's end.
func Unsure(err error) bool {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err != nil && strings.HasPrefix(err.Error(), growSyncFailed)
	}
	var of *fs.PathError // a write's, of os.File; bbolt's fdatasync gives the bare number
	if errors.As(err, &of) && (of.Op == "write" || of.Op == "truncate" || of.Op == "open") {
		return errno != syscall.ENOSPC && errno != syscall.EDQUOT && errno != syscall.EROFS
	}
	return true
}
