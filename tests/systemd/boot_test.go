package systemd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/upgrade"
)

const (
	factoryProgram = "/usr/bin/weir"
	slotAProgram   = "/var/lib/weir-boot/slots/a/weir"
	slotBProgram   = "/var/lib/weir-boot/slots/b/weir"
)

// awaitProgram waits until the service runs a program.
func (m *machine) awaitProgram(t *testing.T, program string) {
	t.Helper()
	m.await(t, program+" runs", func() bool { return m.active() && m.runs() == program })
}

// goesBack: the upgrade is on its way back, or has gone it.
func goesBack(s upgrade.State) bool {
	return s == upgrade.Rollback || s == upgrade.Restoring || s == upgrade.RolledBack
}

// TestHelperWithoutUpgrades: it links the package's program and is not heard of again; a start writes nothing of its own.
func TestHelperWithoutUpgrades(t *testing.T) {
	m := installed(t)
	cursor := m.cursor(t)
	if got := m.runs(); got != factoryProgram {
		t.Errorf("%s runs", got)
	}
	tree := func() string {
		return m.run(t, "find", "/var/lib/weir-boot", "-printf", "%p %l %U %m %T@ %C@\n")
	}
	before := tree()
	if !strings.Contains(before, "/current /usr/bin 0 777 ") || strings.Count(before, "\n") != 2 {
		t.Errorf("the helper's directory:\n%s", before)
	}
	for range 2 {
		m.run(t, "systemctl", "restart", "weir")
		m.await(t, "it is active", m.active)
	}
	if after := tree(); after != before {
		t.Errorf("a start has changed:\n%s\n%s", before, after)
	}
	if said := m.said(t, cursor); strings.Contains(said, "weir-boot:") {
		t.Errorf("the helper says:\n%s", said)
	}
	if out := m.run(t, "/usr/lib/weir/weir-boot", "status"); !strings.Contains(out, "linked     factory\n") || !strings.Contains(out, "none was ever asked for") {
		t.Errorf("its status:\n%s", out)
	}
	// Without the helper the service starts what is linked.
	m.run(t, "mv", "/usr/lib/weir/weir-boot", "/usr/lib/weir/away")
	m.run(t, "systemctl", "restart", "weir")
	m.await(t, "it is active", m.active)
	m.run(t, "mv", "/usr/lib/weir/away", "/usr/lib/weir/weir-boot")
	// So it does where the link is gone: the helper makes it.
	m.run(t, "rm", "-r", "/var/lib/weir-boot")
	m.run(t, "systemctl", "restart", "weir")
	m.awaitProgram(t, factoryProgram)
}

// TestUpgradedProgram: a record in Switched, as the agent writes it, has the fetched weir run, counted; it outlives PID 1, and another package.
func TestUpgradedProgram(t *testing.T) {
	m := installed(t)
	d := provision(t, m)
	d.fetched(t, nextWeir(t), nextVersion, upgrade.Switched, upgrade.Factory, upgrade.SlotA, upgrade.Target{Version: "factory"})
	m.run(t, "systemctl", "restart", "weir")
	m.awaitProgram(t, slotAProgram)
	if s := m.helper(t); s.Booted == nil || s.Booted.Slot != upgrade.SlotA || s.Booted.Version != nextVersion || s.Slots["a"].SHA256 == "" || s.Fleet != "plant" || len(s.Refused) != 0 || s.Booted.Start == "" {
		t.Errorf("%+v", s)
	}
	if r := d.record(t); r.State != upgrade.Probation || r.Tries != upgrade.TriesNew-1 {
		t.Errorf("%s, %d tries", r.State, r.Tries)
	}
	if out := m.run(t, slotAProgram, "version"); !strings.Contains(out, nextVersion) {
		t.Errorf("the slot has %s", out)
	}
	if out := m.run(t, "weir", "version"); strings.Contains(out, nextVersion) {
		t.Errorf("the weir in PATH is %s", out)
	}
	if got := m.run(t, "stat", "-c", "%U %a", "/var/lib/weir-boot", slotAProgram, "/var/lib/weir-boot/root.json"); got != "root 755\nroot 755\nroot 644\n" {
		t.Errorf("rights:\n%s", got)
	}

	m.killInit(t)
	m.awaitProgram(t, slotAProgram)
	if r := d.record(t); r.State != upgrade.Probation || r.Tries != upgrade.TriesNew-2 {
		t.Errorf("behind the reset: %s, %d tries", r.State, r.Tries)
	}
	r := d.record(t)
	m.run(t, "systemctl", "stop", "weir")
	r.State, r.Tries = upgrade.Committed, 0
	d.save(t, r)
	m.run(t, "rm", "/var/lib/weir/upgrade/slot")
	m.run(t, "systemctl", "start", "weir")
	m.awaitProgram(t, slotAProgram)
	m.run(t, "systemctl", "kill", "-s", "KILL", "--kill-whom=main", "weir")
	m.await(t, "it is started again", func() bool { return m.restarts(t) == 1 && m.active() })
	if got := m.runs(); got != slotAProgram {
		t.Errorf("%s runs", got)
	}

	// The same package once more changes nothing; another program in it takes over, and stays.
	m.run(t, "dpkg", "-i", debOf(oldVersion))
	m.awaitProgram(t, slotAProgram)
	m.run(t, "sh", "-c", "cp /usr/bin/weir /usr/bin/weir.new && printf x >>/usr/bin/weir.new && mv /usr/bin/weir.new /usr/bin/weir")
	m.run(t, "systemctl", "restart", "weir")
	m.awaitProgram(t, factoryProgram)
	m.run(t, "systemctl", "restart", "weir")
	m.awaitProgram(t, factoryProgram)
	if s := m.helper(t); !strings.Contains(s.Booted.Taken, "package") || s.Booted.Rescue != "" || len(s.Slots) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestBrokenPrograms: one that ends at once, one that does so with a code that the unit does not repeat, one that stops feeding the watchdog (as a Go program ends by that: with such a code), one that never gets ready: three starts each, every one counted before it, then the old program runs again by itself.
func TestBrokenPrograms(t *testing.T) {
	m := installed(t)
	d := provision(t, m)
	m.dropIn(t, "[Service]\nRestartSec=200ms\nWatchdogSec=5\nTimeoutStartSec=20\n")
	for _, does := range []string{"refuse", "crash", "hang", "silent"} {
		t.Run(does, func(t *testing.T) {
			cursor := m.cursor(t)
			d.fetched(t, standin(t, does), does, upgrade.Switched, upgrade.Factory, upgrade.SlotA, upgrade.Target{Version: "factory"})
			m.run(t, "systemctl", "reset-failed", "weir")
			m.run(t, "systemctl", "restart", "--no-block", "weir")
			m.await(t, "the old program runs again", func() bool { return goesBack(d.record(t).State) && m.active() && m.runs() == factoryProgram })
			r := d.record(t)
			if r.Cause != upgrade.CauseTries || len(r.Rejected) != 1 {
				t.Errorf("%+v", r)
			}
			said := m.said(t, cursor)
			for left := range upgrade.TriesNew {
				if n := strings.Count(said, fmt.Sprintf("version %s is on trial; it has %d starts left behind this one", does, left)); n != 1 {
					t.Errorf("%d starts with %d left:\n%s", n, left, said)
				}
			}
			if !strings.Contains(said, "has no start left, and is gone back from") {
				t.Errorf("it says:\n%s", said)
			}
		})
	}
}

// TestHelperKilled: whichever line of the unit is killed, something whole runs, and a program on trial only when it was counted.
func TestHelperKilled(t *testing.T) {
	m := installed(t)
	d := provision(t, m)
	const killed = "-+/bin/sh -c 'kill -9 $$$$'"
	lines := []string{"-+/usr/lib/weir/weir-boot link", "-/usr/lib/weir/weir-boot count", "-+/usr/lib/weir/weir-boot settle"}
	for i, want := range []string{factoryProgram, factoryProgram, slotAProgram} {
		pre := append([]string{}, lines...)
		pre[i] = killed
		m.dropIn(t, "[Service]\nExecStartPre=\nExecStartPre="+strings.Join(pre, "\nExecStartPre=")+"\n")
		d.fetched(t, standin(t, "good"), "good", upgrade.Switched, upgrade.Factory, upgrade.SlotA, upgrade.Target{Version: "factory"})
		m.run(t, "systemctl", "restart", "weir")
		m.await(t, "something runs", m.active)
		if got := m.runs(); got != want {
			t.Errorf("without %s: %s runs, want %s", lines[i], got, want)
		}
		if r := d.record(t); m.runs() == slotAProgram && r.State != upgrade.Probation {
			t.Errorf("without %s the program on trial runs, and the record is %s", lines[i], r.State)
		}
		m.run(t, "systemctl", "stop", "weir")
	}
	// The planted mistake: a unit that does not look whether the start was counted runs what was not.
	m.dropIn(t, "[Service]\nExecStartPre=\nExecStartPre="+lines[0]+"\n")
	d.fetched(t, standin(t, "good"), "good", upgrade.Switched, upgrade.Factory, upgrade.SlotA, upgrade.Target{Version: "factory"})
	m.run(t, "systemctl", "restart", "weir")
	if got := m.runs(); got != slotAProgram || d.record(t).State != upgrade.Switched {
		t.Errorf("the planted mistake does not show: %s runs, the record is %s", got, d.record(t).State)
	}
}

// TestWhatTheAgentsUserMayDo: as the user weir, with what it can write. The old program runs, the start does not hang, and the next one is mended.
func TestWhatTheAgentsUserMayDo(t *testing.T) {
	m := installed(t)
	d := provision(t, m)
	as := func(script string) {
		m.run(t, "setpriv", "--reuid=weir", "--regid=weir", "--clear-groups", "sh", "-ec", "cd /var/lib/weir/upgrade; "+script)
	}
	for _, c := range []struct{ name, script, says string }{
		{"a pipe", "rm slot; mkfifo slot", "not a plain file"},
		{"a link", "rm slot; ln -s /usr/bin/weir slot", "not a plain file"},
		{"another program", "cat slot slot >x; mv x slot", "not a plain file"}, // longer than the manifest says
		{"another byte", "printf x | dd of=slot bs=1 seek=1000 conv=notrunc 2>/dev/null", "what was fetched is not"},
		{"a manifest that is a pipe", "rm release.json; mkfifo release.json", "not a plain file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cursor := m.cursor(t)
			m.run(t, "systemctl", "stop", "weir")
			m.run(t, "rm", "-rf", "/var/lib/weir/upgrade", "/var/lib/weir-boot/slots")
			d.fetched(t, standin(t, "good"), "good", upgrade.Switched, upgrade.Factory, upgrade.SlotA, upgrade.Target{Version: "factory"})
			as(c.script)
			m.run(t, "systemctl", "start", "weir")
			if got := m.linked(); got != factoryProgram {
				t.Errorf("%s is linked", got)
			}
			if said := m.said(t, cursor); !strings.Contains(said, c.says) {
				t.Errorf("the journal:\n%s", said)
			}
			if s := m.helper(t); len(s.Refused) != 1 {
				t.Errorf("%+v", s)
			}
		})
	}
	for _, script := range []string{"ln -sf /etc/weir /var/lib/weir-boot/current", "echo >/var/lib/weir-boot/floor", "echo >/run/weir-boot/booted", "rm -rf /var/lib/weir-boot/current"} {
		if out, err := m.try("setpriv", "--reuid=weir", "--regid=weir", "--clear-groups", "sh", "-ec", script); err == nil {
			t.Errorf("the user weir may: %s: %s", script, out)
		}
	}
}

// TestDamagedSlots: the other slot runs; without one the factory program, in rescue.
func TestDamagedSlots(t *testing.T) {
	m := installed(t)
	d := provision(t, m)
	first := d.fetched(t, standin(t, "good"), "one", upgrade.Switched, upgrade.Factory, upgrade.SlotA, upgrade.Target{Version: "factory"})
	m.run(t, "systemctl", "restart", "weir")
	m.awaitProgram(t, slotAProgram)
	two := filepath.Join(scratch, "two") // the same with another digest
	b, err := os.ReadFile(standin(t, "good"))
	if err == nil {
		err = os.WriteFile(two, append(b, "two"...), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := d.fetched(t, two, "two", upgrade.Switched, upgrade.SlotA, upgrade.SlotB, first.Target)
	m.run(t, "systemctl", "restart", "weir")
	m.awaitProgram(t, slotBProgram)
	r.State, r.Tries = upgrade.Committed, 0
	d.save(t, r)
	m.run(t, "rm", "/var/lib/weir/upgrade/slot")
	m.run(t, "systemctl", "restart", "weir")
	m.awaitProgram(t, slotBProgram)
	damage := func(program string) {
		t.Helper()
		m.run(t, "systemctl", "stop", "weir")
		if out, err := exec.Command("dd", "if=/dev/zero", "of="+m.path(program), "bs=1", "count=8", "seek=4000", "conv=notrunc").CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		m.try("systemctl", "start", "weir")
	}
	damage(slotBProgram)
	if got := m.linked(); got != slotAProgram {
		t.Errorf("%s is linked", got)
	}
	damage(slotAProgram)
	if got := m.linked(); got != factoryProgram {
		t.Errorf("%s is linked", got)
	}
	if s := m.helper(t); s.Booted.Rescue == "" || len(s.Refused) != 2 {
		t.Errorf("%+v", s)
	}
	m.run(t, "test", "-e", "/run/weir-boot/rescue")
	m.run(t, "/usr/lib/weir/weir-boot", "reset")
	m.run(t, "systemctl", "restart", "weir")
	m.awaitProgram(t, factoryProgram)
	if s := m.helper(t); s.Booted.Rescue != "" || !strings.Contains(s.Booted.Taken, "operator") {
		t.Errorf("%+v", s)
	}
}
