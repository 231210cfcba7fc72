package whole

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

// pathMessages are published in each run; pathWindow is below the broker's max_inflight_messages.
const (
	pathMessages    = 300_000
	pathWindow      = 900
	pathRepetitions = 3
	pathLimit       = 3 * time.Minute
)

// passed is what one consumer took for all messages.
type passed struct {
	cpu, seconds float64
	peakMiB      float64
}

// TestWholePath is mosquitto to HTTP receiver through the agent, in turn with a subscriber that only acknowledges.
func TestWholePath(t *testing.T) {
	needBench(t)
	var bareCPU, weirCPU, cpu, rate, bareRate, weirRate, peak, idle []float64
	for range pathRepetitions {
		b := runBare(t)
		w, idleMiB := runWeir(t)
		bareCPU, weirCPU = append(bareCPU, b.cpu/pathMessages*1e6), append(weirCPU, w.cpu/pathMessages*1e6)
		bareRate, weirRate = append(bareRate, pathMessages/b.seconds/1000), append(weirRate, pathMessages/w.seconds/1000)
		cpu, rate = append(cpu, w.cpu/b.cpu), append(rate, b.seconds/w.seconds)
		peak, idle = append(peak, w.peakMiB), append(idle, idleMiB)
	}
	figure(t, "whole path CPU / bare subscriber", "x", "<= 1.8", cpu...)
	figure(t, "whole path rate / bare subscriber", "x", ">= 0.9", rate...)
	figure(t, "whole path CPU", "s/M", "-", weirCPU...)
	figure(t, "bare subscriber CPU", "s/M", "-", bareCPU...)
	figure(t, "whole path rate", "k/s", "-", weirRate...)
	figure(t, "bare subscriber rate", "k/s", "-", bareRate...)
	figure(t, "peak RSS during the run", "MiB", "<= 48", peak...)
	figure(t, "idle RSS", "MiB", "<= 20", idle...)
}

func startBroker(t *testing.T) *rig.Mosquitto {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	m, err := rig.StartMosquitto(dir, "")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(m.Kill)
	return m
}

func publish(t *testing.T, addr string) (seconds float64) {
	t.Helper()
	child, output := play(t, "publisher", addr, pathMessages, pathWindow)
	seconds, err := strconv.ParseFloat(finish(t, child, output, pathLimit), 64)
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}

func runBare(t *testing.T) passed {
	m := startBroker(t)
	child, output := play(t, "bare", m.Addr, pathMessages)
	for deadline := time.Now().Add(20 * time.Second); read(output) != "ready" && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond) // the SUBSCRIBE is under way
	start := time.Now()
	publish(t, m.Addr)
	text := finish(t, child, output, pathLimit)
	seconds := time.Since(start).Seconds()
	if _, end, ok := strings.Cut(text, "\n"); ok {
		if ns, err := strconv.ParseInt(end, 10, 64); err == nil {
			seconds = time.Unix(0, ns).Sub(start).Seconds()
		}
	}
	cpu, bytes := child.Usage()
	m.Kill()
	return passed{cpu: cpu.Seconds(), seconds: seconds, peakMiB: float64(bytes) / (1 << 20)}
}

// agentDir makes a directory for the agent and its receiver, and starts the receiver.
func agentDir(t *testing.T, broker string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	addr, err := rig.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	play(t, "receiver", addr, filepath.Join(dir, "received.db"))
	if err := rig.WaitListening(addr, nil); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "weir.yaml"), []byte(configOf(dir, broker, addr)), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func startAgent(t *testing.T, dir string) *rig.Child {
	t.Helper()
	child, err := rig.StartChild(filepath.Join(dir, "weir.log"), nil, weir, "run", "--config", filepath.Join(dir, "weir.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(child.Kill)
	return child
}

func runWeir(t *testing.T) (p passed, idleMiB float64) {
	m := startBroker(t)
	dir := agentDir(t, m.Addr)
	agent := startAgent(t, dir)
	await(t, dir, func(s *api.Status) bool { return len(s.Sessions) == 1 && s.Sessions[0].State == "ready" })
	time.Sleep(2 * time.Second)
	idleMiB = residentMiB(t, agent.PID(), "VmRSS")
	before := cpuOf(t, agent.PID())
	start := time.Now()
	publish(t, m.Addr)
	await(t, dir, func(s *api.Status) bool { return s.Sessions[0].Counters["acked"] >= pathMessages })
	p.seconds = time.Since(start).Seconds()
	// The tail: windows, checkpoint, delivery.
	await(t, dir, func(s *api.Status) bool {
		p := &s.Pipelines[0]
		return p.Lag == 0 && p.Checkpoint.Position >= pathMessages && p.Sinks[0].Confirmed == p.Sinks[0].Emitted
	})
	p.cpu = cpuOf(t, agent.PID()) - before
	p.peakMiB = residentMiB(t, agent.PID(), "VmHWM")
	if err := agent.Stop(30 * time.Second); err != nil {
		t.Fatalf("stop the agent: %v\n%s", err, read(filepath.Join(dir, "weir.log")))
	}
	m.Kill()
	return p, idleMiB
}

// await polls the status, which costs the agent little.
func await(t *testing.T, dir string, f func(*api.Status) bool) {
	t.Helper()
	client := api.Dial(filepath.Join(dir, "state", "weir.sock"))
	var last api.Status
	for deadline := time.Now().Add(pathLimit); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		s, err := client.Status(ctx)
		cancel()
		if err == nil && f(&s) {
			return
		}
		last = s
	}
	t.Fatalf("the agent did not get there: %+v\n%s", last, read(filepath.Join(dir, "weir.log")))
}

// cpuOf is user and system time of a process so far, in seconds, to a hundredth.
func cpuOf(t *testing.T, pid int) (seconds float64) {
	t.Helper()
	fields := strings.Fields(read(fmt.Sprintf("/proc/%d/stat", pid)))
	user, err1 := strconv.ParseFloat(fields[13], 64)
	system, err2 := strconv.ParseFloat(fields[14], 64)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return (user + system) / 100 // USER_HZ
}

// residentMiB reads a line of /proc/PID/status.
func residentMiB(t *testing.T, pid int, name string) float64 {
	t.Helper()
	for _, line := range strings.Split(read(fmt.Sprintf("/proc/%d/status", pid)), "\n") {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			if err != nil {
				t.Fatal(err)
			}
			return kib / 1024
		}
	}
	t.Fatalf("/proc/%d/status has no %s", pid, name)
	return 0
}
