package device

import (
	"strconv"
	"strings"
	"testing"
)

// Memory that the service is given (MemoryMax). memoryEnough is a quarter of the smallest gateway; with memoryTooLittle weir cannot even start.
const (
	memoryEnough    = "64M"
	memoryTooLittle = "4M"
	memoryKills     = 5  // of weir, by the kernel, while it has too little
	writesPerKill   = 40 // requests to the data disk, at most: what a start does before it is killed
)

// memoryLimit takes the service's memory away while it works. Within 64 MiB it goes on, and is not killed. With too little the kernel kills it again and again: systemd starts
// it each time, which must not wear the flash; as soon as it may have memory it goes on without help, and what arrives is exact.
func memoryLimit(t *testing.T, h hardware) {
	st := newStage(t, h, seed(t))
	st.boot()
	st.startFeed()
	st.must(st.follow(recordsMost, patience))

	st.allow(memoryEnough)
	st.sh("systemctl restart weir") // as at a boot: its collector keeps to the limit that it finds
	st.must(st.follow(3*recordsMost, patience))
	if n := st.number("sed -n 's/^oom_kill //p' /sys/fs/cgroup/system.slice/weir.service/memory.events"); n > 0 {
		t.Errorf("with %s it was killed %d times for lack of memory", memoryEnough, n)
	}
	t.Logf("with %s: %s bytes at the most", memoryEnough, st.sh("cat /sys/fs/cgroup/system.slice/weir.service/memory.peak 2>/dev/null || cat /sys/fs/cgroup/system.slice/weir.service/memory.current"))

	restarts, before := st.number("systemctl show -P NRestarts weir"), st.disk.Counters()
	st.allow(memoryTooLittle)
	st.until("the kernel has killed weir again and again", func() bool { return st.number("systemctl show -P NRestarts weir") >= restarts+memoryKills })
	after := st.disk.Counters()
	if !strings.Contains(string(st.wholeConsole()), "oom-kill") {
		t.Errorf("weir was restarted, but not because the kernel killed it:\n%s", st.console())
	}
	writes := int(after.Writes - before.Writes)
	t.Logf("with %s: killed %d times; the disk was asked for %d writes (%d bytes) and %d flushes meanwhile", memoryTooLittle, memoryKills, writes, after.Bytes-before.Bytes, after.Flushes-before.Flushes)
	if writes > memoryKills*writesPerKill {
		t.Errorf("%d writes to the disk in %d starts that the kernel ended", writes, memoryKills)
	}

	st.allow(memoryEnough)
	st.until("weir is ready again", func() bool { return st.sh("systemctl is-active weir || true") == "active" })
	st.must(st.follow(recordsMost, patience))
	if v := st.finish(patience); !v.exact() {
		t.Errorf("not exactly once: %v", v)
	}
	st.stop()
}

// allow lets the service have so much memory, until the next boot.
func (st *stage) allow(most string) {
	st.t.Helper()
	st.sh("systemctl set-property --runtime weir.service MemoryHigh=infinity MemoryMax=" + most)
}

// number is what a command on the machine prints.
func (st *stage) number(line string) int {
	st.t.Helper()
	n, err := strconv.Atoi(st.sh(line))
	st.must(err)
	return n
}
