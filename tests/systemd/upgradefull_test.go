package systemd

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/agent/upgrade"
)

// small puts what is in a directory of the machine onto a disk of its own, with room for so many bytes more. back takes it away again; the service is stopped for either, by who calls.
func (u *upgrading) small(dir string, room int) (back func()) {
	u.t.Helper()
	copied := func(from, to string) {
		u.t.Helper()
		u.machine.run(u.t, "cp", "-a", from+"/.", to)
	}
	var have int
	_, err := fmt.Sscan(u.machine.run(u.t, "du", "-s", "--block-size=1", dir), &have)
	u.must(err)
	u.machine.run(u.t, "mkdir", "-p", "/mnt/small")
	u.machine.run(u.t, "mount", "-t", "tmpfs", "-o", fmt.Sprintf("mode=755,size=%d", have+room), "small", "/mnt/small")
	copied(dir, "/mnt/small")
	u.machine.run(u.t, "mount", "--bind", "/mnt/small", dir)
	u.machine.run(u.t, "umount", "/mnt/small")
	return func() {
		u.t.Helper()
		u.machine.run(u.t, "mkdir", "-p", "/var/kept")
		copied(dir, "/var/kept")
		u.machine.run(u.t, "umount", "-l", dir)
		u.machine.run(u.t, "sh", "-c", "rm -rf "+dir+"/* && cp -a /var/kept/. "+dir+" && rm -rf /var/kept")
	}
}

// stopped has something done while the service is stopped.
func (u *upgrading) stopped(do func()) {
	u.t.Helper()
	u.machine.run(u.t, "systemctl", "stop", "weir")
	do()
	u.machine.run(u.t, "systemctl", "start", "--no-block", "weir")
}

// fullSlots: the helper cannot copy the program, since its directory is full. The old program runs on.
func (u *upgrading) fullSlots() {
	u.t.Helper()
	var back func()
	u.stopped(func() { back = u.small("/var/lib/weir-boot", 1<<20) })
	cursor := u.cursor(u.t)
	u.run(&upgradeCase{name: "disk full, helper's copy", want: rolledBack})
	if said := u.said(u.t, cursor); !strings.Contains(said, "no space left on device") {
		u.t.Errorf("the helper says:\n%s", said)
	}
	for _, step := range slices.Concat(both("started"), stepsBack) { // not with process 1: the small disk is a mount, and would end with it
		u.run(&upgradeCase{name: "disk full, helper's copy", step: step, crash: killAgent, want: rolledBack})
	}
	u.stopped(back)
}

// fullState: the disk of state_dir is full when the artifact is fetched; the gates had room.
func (u *upgrading) fullState() {
	u.t.Helper()
	const room = 256 << 20 // twice the program, savepoints, journal.reserve
	var back func()
	u.stopped(func() { back = u.small("/var/lib/weir", room) })
	const fill = "/var/lib/weir/fill"
	c := upgradeCase{name: "disk full, fetching", step: "upgrade-after-accepted-passed", want: failed, at: func(u *upgrading) {
		u.machine.run(u.t, "sh", "-c", "fallocate -l $(( $(df --output=avail --block-size=1 /var/lib/weir | tail -1) - 16777216 )) "+fill)
	}, after: func(u *upgrading) { u.machine.run(u.t, "rm", fill) }}
	for _, c.then = range both("fetching-failed") {
		c.crash = killAgent
		u.run(&c)
	}
	c.then, c.crash, c.says = "", standing, "full"
	u.run(&c)
	u.stopped(back)
	if s := u.awaitRest("the gateway is at rest", 0); s.Upgrade.Cause != string(upgrade.CauseSpace) {
		u.t.Errorf("the cause is %q", s.Upgrade.Cause)
	}
}
