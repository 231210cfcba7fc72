package systemd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

func debOf(version string) string { return "/opt/weir_" + version + "_amd64.deb" }

// fresh is the machine as if nothing of weir had ever been on it.
func fresh(t *testing.T) *machine {
	t.Helper()
	m := need(t)
	m.try("systemctl", "kill", "-s", "KILL", "--kill-whom=main", "weir")
	m.run(t, "env", "WEIR_PURGE_STATE=yes", "dpkg", "--purge", "weir")
	m.run(t, "rm", "-rf", "/etc/weir", "/var/lib/weir", "/var/lib/weir-files", "/var/lib/weir-boot", "/run/weir", "/run/weir-boot", "/etc/systemd/system/weir.service.d")
	m.run(t, "systemctl", "daemon-reload")
	m.try("systemctl", "reset-failed", "weir")
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := m.try("journalctl", "-b", "-n", "60", "--no-pager", "-o", "short-precise")
			t.Log(out)
		}
	})
	return m
}

// installed is fresh with the package, whose service runs.
func installed(t *testing.T) *machine {
	t.Helper()
	m := fresh(t)
	m.run(t, "dpkg", "-i", debOf(newVersion))
	m.await(t, "it is active", m.active)
	return m
}

// show gives properties of the service.
func (m *machine) show(property string) string {
	out, err := m.try("systemctl", "show", "-P", property, "weir")
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(out)
}

func (m *machine) active() bool {
	return m.show("ActiveState") == "active" && m.show("SubState") == "running"
}

func (m *machine) restarts(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(m.show("NRestarts"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// await waits until something holds.
func (m *machine) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(rig.Patience); !holds(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("in vain waited until %s; the service is %s/%s, %s, restarts %s", what, m.show("ActiveState"), m.show("SubState"), m.show("Result"), m.show("NRestarts"))
		}
	}
}

// cursor is where the journal of the machine ends now.
func (m *machine) cursor(t *testing.T) string {
	t.Helper()
	out := m.run(t, "journalctl", "-n", "0", "--show-cursor", "--no-pager")
	_, cursor, _ := strings.Cut(out, "-- cursor: ")
	return strings.TrimSpace(cursor)
}

// said are the lines of the service, and of systemd about it, behind a cursor.
func (m *machine) said(t *testing.T, cursor string) string {
	t.Helper()
	args := []string{"-u", "weir", "--no-pager", "-o", "cat"}
	if cursor != "" {
		args = append(args, "--after-cursor", cursor)
	}
	return m.run(t, "journalctl", args...)
}

// status asks the agent.
func (m *machine) status(t *testing.T) (s api.Status) {
	t.Helper()
	out := m.run(t, "weir", "status", "-o", "json")
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return s
}

// pipelineConfig has one pipeline that keeps state, reads from a broker of the test, and makes a checkpoint only when it is told to or stops.
func pipelineConfig(broker string) string {
	return fmt.Sprintf(`gateway: gw
state_dir: /var/lib/weir
security: {file_root: /var/lib/weir-files}
brokers: {plant: {url: "tcp://%s"}}
sources:
  telemetry: {mqtt: {broker: plant, topic: "dev/{device}"}, fields: {n: int}}
pipelines:
  counted:
    checkpoint: {interval: 1h}
    steps:
      - {uid: total, from: telemetry, by: [device], delta: {value: n, as: step}}
    sinks:
      - {uid: out, from: total, commit: immediate, file: {path: out.jsonl}}
`, broker)
}

// plant starts a broker in the machine's network and the service with a pipeline that reads from it.
func plant(t *testing.T, m *machine) *rig.Broker {
	t.Helper()
	b, err := rig.NewBroker(rig.BrokerConfig{Listener: m.listen(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	m.write(t, "/etc/weir/weir.yaml", pipelineConfig(b.Addr()))
	m.run(t, "systemctl", "restart", "weir")
	m.await(t, "it is active", m.active)
	return b
}

// send publishes n messages and waits until the pipeline has worked on all that the journal has.
func send(t *testing.T, m *machine, b *rig.Broker, from, n int) {
	t.Helper()
	m.await(t, "the session is there", func() bool { return subscribed(b) })
	for i := range n {
		b.Publish("dev/d1", 1, false, fmt.Appendf(nil, `{"n": %d}`, from+i))
	}
	m.await(t, "all is worked on", func() bool { return len(m.results(t)) >= from+n })
}

func subscribed(b *rig.Broker) bool {
	s := b.Session("weir-gw")
	return s.Connected && len(s.Filters) > 0
}

// results are the rows that the pipeline has delivered; the lines that open a file are none.
func (m *machine) results(t *testing.T) (rows []json.RawMessage) {
	t.Helper()
	data, err := os.ReadFile(m.path("/var/lib/weir-files/out.jsonl"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(data) {
		var l struct {
			Data json.RawMessage `json:"data"`
		}
		if err := json.Unmarshal(line, &l); err == nil && l.Data != nil { // the last line may be half there
			rows = append(rows, l.Data)
		}
	}
	return rows
}
