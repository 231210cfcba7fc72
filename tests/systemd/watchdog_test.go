package systemd

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestWatchdog: an agent in which a task, the journal, a checkpoint or the start of a pipeline hangs says so, is not fed, is killed by systemd, and its next run goes on without loss. One that is only idle lives.
func TestWatchdog(t *testing.T) {
	for _, c := range []struct{ part, says string }{
		{"TASK", "pipeline counted: stands at position"},
		{"JOURNAL", "the journal hangs"},
		{"SNAPSHOT", "pipeline counted: a checkpoint hangs"},
		{"START", "pipeline counted: its start hangs"},
	} {
		t.Run(strings.ToLower(c.part), func(t *testing.T) {
			m := installed(t)
			const once = "/var/lib/weir/hang" // it hangs when it can remove it: the second run does not
			m.dropIn(t, fmt.Sprintf("[Service]\nExecStart=\nExecStart=/usr/local/bin/weir-faulty run\nWatchdogSec=3\nEnvironment=WEIR_STUCK_AFTER=2s WEIR_HANG_%s=%s\n", c.part, once))
			b := plant(t, m)
			if c.part == "SNAPSHOT" { // the shortest timeout of a checkpoint
				m.write(t, "/etc/weir/weir.yaml", strings.Replace(pipelineConfig(b.Addr()), "interval: 1h", "interval: 1h, timeout: 1s", 1))
				m.run(t, "systemctl", "restart", "weir")
				m.await(t, "it is active", m.active)
			}
			send(t, m, b, 0, 5)
			time.Sleep(5 * time.Second) // more than the watchdog takes when it is not fed
			if n := m.restarts(t); n != 0 {
				t.Fatalf("%d restarts of an idle agent", n)
			}
			cursor, pid := m.cursor(t), m.show("MainPID")
			m.write(t, once, "")
			b.Publish("dev/d1", 1, false, []byte(`{"n": 5}`))
			if c.part == "SNAPSHOT" {
				m.await(t, "the record is worked on", func() bool { return len(m.results(t)) == 6 })
				go m.try("weir", "checkpoint", "trigger", "counted") // ends with the agent
			}
			if c.part == "START" { // of a pipeline, long after the agent was ready
				m.run(t, "weir", "pipeline", "stop", "counted")
				m.run(t, "weir", "pipeline", "start", "counted")
			}
			m.await(t, "systemd has restarted it", func() bool { return m.restarts(t) >= 1 && m.active() && m.show("MainPID") != pid })
			if _, err := os.Stat(m.path(once)); !os.IsNotExist(err) {
				t.Errorf("nothing hung: %v", err)
			}
			said := m.said(t, cursor)
			for _, want := range []string{"no progress; the watchdog is not fed", c.says, "Watchdog timeout"} {
				if !strings.Contains(said, want) {
					t.Errorf("the journal does not say %q:\n%s", want, said)
				}
			}
			send(t, m, b, 6, 4)
			checkResults(t, m, 10)
			if n := m.restarts(t); n != 1 {
				t.Errorf("%d restarts", n)
			}
		})
	}
}
