package systemd

import (
	"os"
	"strings"
	"testing"
)

// TestInstalled: dpkg -i is all that is needed. The service is enabled, READY, runs as weir without any right, and answers.
func TestInstalled(t *testing.T) {
	m := installed(t)
	if got := strings.TrimSpace(m.run(t, "systemctl", "is-enabled", "weir")); got != "enabled" {
		t.Errorf("the service is %s", got)
	}
	if out := m.run(t, "systemd-analyze", "verify", "--man=no", "weir.service"); strings.Contains(out, "weir") {
		t.Errorf("systemd does not like the unit: %s", out)
	}
	status := m.run(t, "cat", "/proc/"+m.show("MainPID")+"/status")
	uid := strings.TrimSpace(m.run(t, "id", "-u", "weir"))
	for _, want := range []string{"Uid:\t" + uid + "\t" + uid + "\t" + uid + "\t" + uid + "\n", "CapEff:\t0000000000000000\n", "CapBnd:\t0000000000000000\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n"} {
		if !strings.Contains(status, want) {
			t.Errorf("the process has not %q: %s", want, status)
		}
	}
	if s := m.status(t); s.Journal.Failed != "" || len(s.Problems) != 0 {
		t.Errorf("%+v", s)
	}
	if got := m.run(t, "stat", "-c", "%U:%G %a", "/etc/weir", "/etc/weir/credentials", "/etc/weir/weir.yaml", "/var/lib/weir", "/var/lib/weir-files"); got !=
		"root:weir 750\nroot:root 750\nroot:root 644\nweir:weir 750\nweir:weir 750\n" {
		t.Errorf("rights:\n%s", got)
	}
	for _, name := range []string{"/usr/share/man/man1/weir.1.gz", "/usr/share/bash-completion/completions/weir", "/usr/share/doc/weir/copyright", "/usr/share/doc/weir/licences.gz", "/usr/share/doc/weir/docs/install.md"} {
		if info, err := os.Stat(m.path(name)); err != nil || info.Size() < 100 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if m.restarts(t) != 0 {
		t.Error("it was restarted meanwhile")
	}
}

// TestUpgradeDowngradeRemovePurge: state, results and an edited config outlive all but a purge that is told to.
func TestUpgradeDowngradeRemovePurge(t *testing.T) {
	m := fresh(t)
	m.run(t, "dpkg", "-i", debOf(oldVersion))
	m.await(t, "it is active", m.active)
	b := plant(t, m) // an edited config
	edited := m.run(t, "cat", "/etc/weir/weir.yaml")
	send(t, m, b, 0, 10)
	next, last := 10, m.status(t).Journal.Last
	goesOn := func(what, version string) {
		t.Helper()
		came := last
		m.await(t, "it is active "+what, m.active)
		if got := m.run(t, "dpkg-query", "-W", "-f", "${Version}", "weir"); got != version {
			t.Errorf("%s: version %s", what, got)
		}
		if got := m.run(t, "cat", "/etc/weir/weir.yaml"); got != edited {
			t.Errorf("%s the config is another:\n%s", what, got)
		}
		if s := m.status(t); len(s.Pipelines) != 1 || s.Pipelines[0].State != "running" || s.Pipelines[0].Checkpoint.Position < came {
			t.Errorf("%s, with %d records before: %+v", what, came, s.Pipelines)
		}
		send(t, m, b, next, 10)
		next += 10
		checkResults(t, m, next)
		last = m.status(t).Journal.Last
	}
	pid := m.show("MainPID")
	cursor := m.cursor(t)
	m.run(t, "dpkg", "-i", debOf(newVersion))
	goesOn("behind the upgrade", newVersion)
	if m.show("MainPID") == pid {
		t.Error("the old program still runs")
	}
	if said := m.said(t, cursor); !strings.Contains(said, "agent stopped") {
		t.Errorf("the upgrade was no clean stop:\n%s", said)
	}
	m.run(t, "dpkg", "-i", debOf(oldVersion)) // dpkg warns that it is one
	goesOn("behind the downgrade", oldVersion)

	// A service that the operator has stopped stays so.
	m.run(t, "systemctl", "stop", "weir")
	m.run(t, "dpkg", "-i", debOf(newVersion))
	if got := m.show("ActiveState"); got != "inactive" {
		t.Errorf("the upgrade of a stopped service made it %s", got)
	}
	// One that the operator has disabled as well.
	m.run(t, "systemctl", "disable", "weir")
	m.run(t, "dpkg", "-i", debOf(oldVersion))
	if out, _ := m.try("systemctl", "is-enabled", "weir"); strings.TrimSpace(out) != "disabled" {
		t.Errorf("the upgrade made a disabled service %s", out)
	}
	m.run(t, "systemctl", "enable", "--now", "weir")
	goesOn("again", oldVersion)

	cursor = m.cursor(t)
	m.run(t, "dpkg", "--remove", "weir")
	if said := m.said(t, cursor); !strings.Contains(said, "agent stopped") {
		t.Errorf("the removal was no clean stop:\n%s", said)
	}
	if _, err := os.Stat(m.path("/usr/bin/weir")); !os.IsNotExist(err) {
		t.Errorf("the program is there behind the removal: %v", err)
	}
	if m.run(t, "cat", "/etc/weir/weir.yaml") != edited {
		t.Error("the removal took the config")
	}
	m.run(t, "dpkg", "-i", debOf(newVersion))
	goesOn("installed again", newVersion)

	out := m.run(t, "dpkg", "--purge", "weir")
	if !strings.Contains(out, "/var/lib/weir stays") || !strings.Contains(out, "/var/lib/weir-files stays") {
		t.Errorf("the purge says: %s", out)
	}
	for _, name := range []string{"/etc/weir/weir.yaml", "/var/lib/weir-boot"} {
		if _, err := os.Stat(m.path(name)); !os.IsNotExist(err) {
			t.Errorf("the purge left %s: %v", name, err)
		}
	}
	if got := len(m.results(t)); got != next {
		t.Errorf("%d results behind the purge, want %d", got, next)
	}
	// Started with the config of the package, it would give up the pipelines of the state.
	if out := m.run(t, "dpkg", "-i", debOf(newVersion)); !strings.Contains(out, "state of an earlier installation") || m.show("ActiveState") != "inactive" || m.show("UnitFileState") != "disabled" {
		t.Errorf("installed over state whose config is gone, the service is %s, %s: %s", m.show("ActiveState"), m.show("UnitFileState"), out)
	}
	m.write(t, "/etc/weir/weir.yaml", edited)
	m.run(t, "systemctl", "enable", "--now", "weir")
	goesOn("behind a purge that kept the state", newVersion)

	m.run(t, "env", "WEIR_PURGE_STATE=yes", "dpkg", "--purge", "weir")
	for _, dir := range []string{"/var/lib/weir", "/var/lib/weir-files", "/var/lib/weir-boot", "/usr/lib/weir", "/etc/weir", "/etc/systemd/system/multi-user.target.wants/weir.service"} {
		if _, err := os.Lstat(m.path(dir)); !os.IsNotExist(err) {
			t.Errorf("%s is there behind the whole purge: %v", dir, err)
		}
	}
	m.run(t, "id", "weir") // its number must not become another's
}
