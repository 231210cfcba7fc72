package boot

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lock keeps two runs from meeting, an operator's and a start's. It ends with the process. Where it cannot be had, a start goes on without: only one's copy of a program could be another's then, and would not verify.
func (p *Places) lock() (unlock func()) {
	f, err := os.OpenFile(filepath.Join(p.Run, "lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return func() {}
	}
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != unix.EINTR {
			return func() { f.Close() }
		}
	}
}
