package systemd

import (
	"encoding/json"
	"strings"
	"testing"
)

// checkResults: the results are those of n messages, each once, in order.
func checkResults(t *testing.T, m *machine, n int) {
	t.Helper()
	lines := m.results(t)
	if len(lines) != n {
		t.Fatalf("%d results, want %d", len(lines), n)
	}
	for i, line := range lines {
		var r struct{ N, Step *int }
		if err := json.Unmarshal(line, &r); err != nil || r.N == nil || *r.N != i || i > 0 && (r.Step == nil || *r.Step != 1) {
			t.Fatalf("result %d: %v %s", i, err, line)
		}
	}
}

// TestStopTakesACheckpoint: systemctl stop ends behind a checkpoint of all that came; the next start has nothing to replay. kill -9 has none, which is how
// the test would notice.
func TestStopTakesACheckpoint(t *testing.T) {
	m := installed(t)
	b := plant(t, m)
	send(t, m, b, 0, 20)
	came := m.status(t).Journal.Last // what comes behind it is the session's own, of the next start
	covered := func() bool { return m.status(t).Pipelines[0].Checkpoint.Position >= came }
	if covered() {
		t.Fatal("there is a checkpoint before the stop: the test shows nothing")
	}
	cursor := m.cursor(t)
	m.run(t, "systemctl", "stop", "weir")
	if got := m.show("Result") + " " + m.show("ActiveState") + " " + m.show("ExecMainStatus"); got != "success inactive 0" {
		t.Errorf("the stop: %s", got)
	}
	said := m.said(t, cursor)
	if !strings.Contains(said, "agent stopped") || strings.Contains(said, "SIGKILL") {
		t.Errorf("the stop says:\n%s", said)
	}
	m.run(t, "systemctl", "start", "weir")
	m.await(t, "it is active", m.active)
	if !covered() {
		t.Errorf("the journal had %d records, and the last checkpoint is at %d", came, m.status(t).Pipelines[0].Checkpoint.Position)
	}
	send(t, m, b, 20, 20)
	checkResults(t, m, 40)
	came = m.status(t).Journal.Last
	m.run(t, "systemctl", "kill", "-s", "KILL", "--kill-whom=main", "weir")
	m.await(t, "it is active again", func() bool { return m.active() && m.restarts(t) == 1 })
	m.await(t, "the results are all there", func() bool { return len(m.results(t)) >= 40 })
	if covered() {
		t.Error("kill -9 left a checkpoint: the test shows nothing")
	}
	send(t, m, b, 40, 5)
	checkResults(t, m, 45)
}
