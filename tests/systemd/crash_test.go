package systemd

import (
	"strings"
	"testing"
	"time"
)

// TestKilledAgainAndAgain: a service that is killed is always started again, however often; nothing is lost and nothing comes twice.
func TestKilledAgainAndAgain(t *testing.T) {
	m := installed(t)
	b := plant(t, m)
	const kills = 8 // more than a start limit of systemd's allows in its time, and so many that weir waits
	for n := range kills {
		send(t, m, b, 5*n, 5)
		m.run(t, "systemctl", "kill", "-s", "KILL", "--kill-whom=main", "weir")
		m.await(t, "it is active again", func() bool { return m.restarts(t) == n+1 && m.active() })
	}
	// How a Go program ends by a panic, or by the watchdog: with code 2, if weir did not take care. That is the code of a wrong config, which is not repeated.
	for n, signal := range []string{"ABRT", "SEGV"} {
		m.run(t, "systemctl", "kill", "-s", signal, "--kill-whom=main", "weir")
		m.await(t, "it is active again behind "+signal, func() bool { return m.restarts(t) == kills+n+1 && m.active() })
	}
	send(t, m, b, 5*kills, 5)
	checkResults(t, m, 5*kills+5)
	if said := m.said(t, ""); !strings.Contains(said, "the runs before ended soon; this start waits") {
		t.Error("no start waited")
	}
}

// TestWrongConfigIsNotRepeated: one run, one clear line, no write to the state; the service waits for the operator.
func TestWrongConfigIsNotRepeated(t *testing.T) {
	m := installed(t)
	before := m.tree(t)
	good := m.run(t, "cat", "/etc/weir/weir.yaml")
	m.write(t, "/etc/weir/weir.yaml", good+"\nbogus: 1\n")
	cursor := m.cursor(t)
	if _, err := m.try("systemctl", "restart", "weir"); err == nil {
		t.Error("systemctl restart knows of no failure")
	}
	m.await(t, "it has failed", func() bool { return m.show("ActiveState") == "failed" })
	time.Sleep(3 * time.Second) // RestartSec is 2
	if got := m.show("ActiveState") + " " + m.show("NRestarts") + " " + m.show("ExecMainStatus"); got != "failed 0 2" {
		t.Errorf("state, restarts, exit code: %s", got)
	}
	said := m.said(t, cursor)
	if n := strings.Count(said, `unknown setting "bogus"`); n != 1 || !strings.Contains(said, "/etc/weir/weir.yaml:") {
		t.Errorf("the journal says %d times what is wrong:\n%s", n, said)
	}
	if after := m.tree(t); after != before {
		t.Errorf("the state was touched:\n%s\n%s", before, after)
	}
	m.write(t, "/etc/weir/weir.yaml", good)
	m.run(t, "systemctl", "restart", "weir")
	m.await(t, "it is active", m.active)

	// The planted mistake: a check before ExecStart, as the unit once had it, is repeated for ever.
	m.dropIn(t, "[Service]\nExecStartPre=/usr/bin/weir check\n")
	m.write(t, "/etc/weir/weir.yaml", good+"\nbogus: 1\n")
	m.try("systemctl", "restart", "weir")
	m.await(t, "the planted mistake shows", func() bool { return m.restarts(t) > 1 })
}

// tree is what lies in the state directory, less the socket: names, sizes, times of change.
func (m *machine) tree(t *testing.T) string {
	t.Helper()
	return m.run(t, "find", "/var/lib/weir", "-type", "f", "-printf", "%p %s %T@\n")
}

// dropIn is a drop-in of the operator.
func (m *machine) dropIn(t *testing.T, text string) {
	t.Helper()
	m.write(t, "/etc/systemd/system/weir.service.d/test.conf", text)
	m.run(t, "systemctl", "daemon-reload")
}

// TestFailingStartsAreRare: what fails at each start, and may get better by itself, is tried for ever, more and more rarely.
func TestFailingStartsAreRare(t *testing.T) {
	m := installed(t)
	m.run(t, "systemctl", "stop", "weir")
	m.run(t, "mv", "/var/lib/weir/journal", "/var/lib/weir/journal.away")
	m.write(t, "/var/lib/weir/journal", "no directory\n")
	cursor := m.cursor(t)
	m.try("systemctl", "restart", "--no-block", "weir")
	m.await(t, "a start waits", func() bool { return strings.Contains(m.said(t, cursor), "this start waits") })
	if n := m.restarts(t); n < 5 {
		t.Errorf("a start waits behind %d restarts", n)
	}
	m.run(t, "rm", "/var/lib/weir/journal")
	m.run(t, "mv", "/var/lib/weir/journal.away", "/var/lib/weir/journal")
	m.await(t, "it is active without help", m.active)
}
