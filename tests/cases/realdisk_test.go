package cases

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink/receiver"
)

// plant is a site with mosquitto in place of the scripted broker, and a receiver.
type plant struct {
	*site
	far  *receiver.Receiver
	out  *rig.Publisher
	sent int
}

// newPlant starts them; more is what the config has besides source and pipeline "bulk".
func newPlant(t *testing.T, more string) *plant {
	t.Helper()
	far, err := receiver.Open(receiver.Options{Path: filepath.Join(t.TempDir(), "far.db"), Config: receiver.Default(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	server := httptest.NewServer(far)
	t.Cleanup(server.Close)
	p := &plant{far: far, site: newSite(t, more+`
sources:
  bulk: {mqtt: {broker: local, topic: "bulk/+"}, fields: {seq: int}}
pipelines:
  bulk:
    start: earliest
    checkpoint: {interval: 100ms}
    steps:
      - {uid: numbers, from: bulk, select: [seq]}
    sinks:
      - {uid: up, from: numbers, http: {url: "`+server.URL+`"}}
`)}
	broker, err := rig.StartMosquitto(t.TempDir(), "")
	if errors.Is(err, rig.ErrNoMosquitto) {
		t.Skip("NOT TESTED HERE: ", err)
	}
	p.must(err)
	t.Cleanup(broker.Kill)
	p.addr = broker.Addr
	p.out = rig.NewPublisher(rig.PublisherConfig{Addr: broker.Addr, ClientID: "plant", QoS: 2})
	t.Cleanup(p.out.Close)
	return p
}

// send publishes n messages of 900 bytes; the broker has them when it returns.
func (p *plant) send(n int) {
	p.t.Helper()
	for range n {
		text := fmt.Sprintf(`{"seq":%d,"pad":"%s"}`, p.sent, strings.Repeat("x", 880))
		p.must(p.out.Publish(p.t.Context(), "bulk/1", false, []byte(text)))
		p.sent++
	}
	p.must(p.out.Flush(p.t.Context()))
}

// delivered waits until the receiver has every number, and demands each of them once.
func (p *plant) delivered() {
	p.t.Helper()
	p.eventually("all is delivered", func(st api.Status) bool {
		up := st.Pipelines[0]
		return up.State == "running" && up.Lag == 0 && len(up.Sinks) > 0 && up.Sinks[0].Pending == 0 && up.Sinks[0].Confirmed >= uint64(p.sent)
	})
	p.exactly(p.far, p.sent)
}

// TestRealDiskWithMosquitto: an ext4 beneath a running agent fills up, and is given room again: the agent waits, says so, and goes on without a restart. Nobody can remount it read-only, since
// the agent holds files open. Then the kernel takes it away, as after an error of the device (remount,abort): the agent says so, and starts on it end at once and write nothing. The
// file system is checked, mounted, and the agent goes on. Every message is at the receiver once.
func TestRealDiskWithMosquitto(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED HERE: a loop device needs root")
	}
	p := newPlant(t, "journal: {segment: 256KiB, reserve: 0, max_bytes: 16MiB, compress: false}")
	state := filepath.Join(p.dir, "state")
	p.must(os.Mkdir(state, 0o755))
	image := ext4Image(t, 64)
	mountImage(t, image, state)
	t.Cleanup(func() {
		if p.agent != nil {
			p.agent.Kill()
		}
	})
	p.startReady()
	p.send(200)
	p.delivered()
	pid := p.agent.PID()

	ballast := filepath.Join(state, "ballast")
	p.must(rig.FillDisk(state))
	p.send(1200)
	p.eventually("the journal cannot be written", stuckDisk)
	p.must(os.Remove(ballast))
	p.delivered()

	if out, err := exec.Command("mount", "-o", "remount,ro", state).CombinedOutput(); err == nil || !strings.Contains(string(out), "busy") {
		t.Errorf("a file system with files that are open for writing was made read-only: %v %s", err, out)
	}
	p.send(100)
	p.delivered()
	if p.agent.PID() != pid {
		t.Error("the agent was restarted")
	}

	p.mount("remount,abort", state)
	p.send(300)
	p.saysReadOnly(state)
	p.agent.Kill()
	device := deviceOf(t, state)
	if n := p.failsToStart(device, "read-only", state, "dmesg"); n > 0 {
		t.Errorf("three starts on the aborted file system wrote %d sectors", n)
	}
	p.must(syscall.Unmount(state, 0))
	if out, err := exec.Command("e2fsck", "-fy", image).CombinedOutput(); err != nil && !isExit(err, 1) { // 1: it mended something
		t.Fatalf("e2fsck: %v %s", err, out)
	}
	mountImage(t, image, state)
	p.startReady()
	p.send(50)
	p.delivered()
	p.stop()
}

// stuckDisk tells that a status says that the journal waits for the disk.
func stuckDisk(st api.Status) bool {
	return (st.Journal.Full || st.Journal.Waits != "") && strings.Contains(strings.Join(st.Problems, "\n"), "journal")
}

// saysReadOnly waits until the agent tells of it, in the status, where its write met it, or, where a sync did, as the reason of its end.
func (p *plant) saysReadOnly(state string) {
	p.t.Helper()
	client := api.Dial(p.socket())
	_, err := rig.AwaitStatus(p.t.Context(), p.socket(), p.agent, patience, "it says that the disk is read-only", func(st *api.Status) bool {
		return strings.Contains(st.Journal.Waits, "read-only") && strings.Contains(strings.Join(st.Problems, "\n"), "dmesg")
	})
	if err == nil {
		return
	}
	if _, alive := client.Status(p.t.Context()); alive == nil {
		p.t.Fatal(err)
	}
	<-p.agent.Done()
	if log := p.log(); !strings.Contains(log, "read-only") || !strings.Contains(log, "dmesg") {
		p.t.Errorf("it ended without saying why: %s", tail(log, 2000))
	}
}

func (p *plant) mount(how, dir string) {
	p.t.Helper()
	if out, err := exec.Command("mount", "-o", how, dir).CombinedOutput(); err != nil {
		p.t.Fatalf("mount -o %s: %v %s", how, err, out)
	}
}

func isExit(err error, code int) bool {
	var e *exec.ExitError
	return errors.As(err, &e) && e.ExitCode() == code
}

// deviceOf is the block device that a directory is mounted from.
func deviceOf(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == dir {
			return filepath.Base(f[0])
		}
	}
	t.Fatalf("%s is not mounted", dir)
	return ""
}
