package systemd

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestJournalFields: journalctl finds lines by what they are about, and by how bad they are.
func TestJournalFields(t *testing.T) {
	m := installed(t)
	b := plant(t, m)
	send(t, m, b, 0, 1)
	find := func(matches ...string) (found []map[string]any) {
		t.Helper()
		out := m.run(t, "journalctl", append([]string{"-b", "-u", "weir", "-o", "json", "--no-pager", "--all"}, matches...)...)
		for line := range strings.Lines(out) {
			var fields map[string]any
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			found = append(found, fields)
		}
		return found
	}
	ready := find("BROKER=plant", "EVENT=session is ready")
	if len(ready) == 0 {
		t.Fatal("no line with BROKER=plant")
	}
	for name, want := range map[string]string{"PRIORITY": "6", "CLIENT_ID": "weir-gw", "SYSLOG_IDENTIFIER": "weir", "_TRANSPORT": "journal", "_SYSTEMD_UNIT": "weir.service",
		"MESSAGE": "session is ready broker=plant client_id=weir-gw filters=1"} {
		if got := ready[len(ready)-1][name]; got != want {
			t.Errorf("%s=%v, want %q", name, got, want)
		}
	}
	m.run(t, "systemctl", "restart", "weir")
	m.await(t, "it is active", m.active)
	if len(find("PIPELINE=counted", "EVENT=checkpoint restored")) == 0 {
		t.Error("no line with PIPELINE=counted")
	}
	m.write(t, "/etc/weir/weir.yaml", "bogus: 1\n")
	m.try("systemctl", "restart", "weir")
	m.await(t, "it has failed", func() bool { return m.show("ActiveState") == "failed" })
	last := map[string]any{}
	m.await(t, "the wrong config is in the journal", func() bool {
		for _, last = range find() {
			if text, _ := last["MESSAGE"].(string); strings.Contains(text, `unknown setting "bogus"`) {
				return true
			}
		}
		return false
	})
	if last["PRIORITY"] != "3" {
		t.Errorf("a wrong config has the priority %v: %v", last["PRIORITY"], last)
	}
	if out := m.run(t, "journalctl", "-b", "-u", "weir", "-p", "err", "-o", "cat", "--no-pager"); !strings.Contains(out, `unknown setting "bogus"`) || strings.Contains(out, "session is ready") {
		t.Errorf("journalctl -p err: %s", out)
	}
}
