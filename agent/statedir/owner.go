package statedir

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// becomeOwner makes root the user that dir belongs to, for good: what root made in a state_dir of the service, a repair's new segment for example, the service could not open, and it would not
// start any more. Whose own directory it is, who is not root, and a root that may not change who it is, as in some containers, go on as they are. It tells the user, 0 when nothing was changed.
func becomeOwner(dir string) (user int) {
	var st unix.Stat_t
	if os.Geteuid() != 0 || unix.Stat(dir, &st) != nil || st.Uid == 0 {
		return 0
	}
	gid := int(st.Gid)
	// That of package unix changes the groups of one thread, and the others would stay in root's.
	if syscall.Setgroups([]int{gid}) != nil || unix.Setresgid(gid, gid, gid) != nil || unix.Setresuid(int(st.Uid), int(st.Uid), int(st.Uid)) != nil {
		return 0
	}
	// What the kernel tells of this process, what it has written for example, would be root's alone otherwise (prctl(2), PR_SET_DUMPABLE).
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0)
	return int(st.Uid)
}
