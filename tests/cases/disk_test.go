package cases

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
)

// smallExt4 mounts an ext4 of so many MiB, in a file on a loop device.
func smallExt4(t *testing.T, dir string, mib int) (device string) {
	t.Helper()
	image := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, int64(mib)<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-m", "0", image).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED HERE: no ext4 can be made: %v %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, dir).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED HERE: no loop device can be mounted: %v %s", err, out)
	}
	t.Cleanup(func() { exec.Command("umount", "-l", dir).Run() })
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 1 && f[1] == dir {
			device = filepath.Base(f[0])
		}
	}
	return device
}

// sectorsWritten of a block device since it is there.
func (s *site) sectorsWritten(device string) (n uint64) {
	s.t.Helper()
	b, err := os.ReadFile("/sys/block/" + device + "/stat")
	s.must(err)
	var x [7]uint64
	_, err = fmt.Sscan(string(b), &x[0], &x[1], &x[2], &x[3], &x[4], &x[5], &x[6])
	s.must(err)
	return x[6]
}

// cpu is the time that the agent has used.
func (s *site) cpu() time.Duration {
	s.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.agent.PID()))
	s.must(err)
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	var user, system int64
	_, err = fmt.Sscan(f[11]+" "+f[12], &user, &system)
	s.must(err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// TestRealDiskFullThenReadOnly: another process fills an ext4 to the last block while the agent runs; the agent waits, is killed, starts on the full disk, waits, and goes on by
// itself when there is space. Then the disk is read-only at a start: each try ends at once, with the reason, and writes nothing.
func TestRealDiskFullThenReadOnly(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED HERE: a loop device needs root")
	}
	s := newSite(t, `
journal: {segment: 256KiB, reserve: 0, max_bytes: 16MiB, compress: false}
sources:
  bulk: {mqtt: {broker: local, topic: "bulk/+"}, fields: {seq: int}}
pipelines:
  bulk:
    start: earliest
    checkpoint: {interval: 100ms}
    steps:
      - {uid: numbers, from: bulk, select: [seq]}
    sinks:
      - {uid: up, from: numbers, file: {path: up.jsonl}}
`)
	state := filepath.Join(s.dir, "state")
	s.must(os.Mkdir(state, 0o755))
	device := smallExt4(t, state, 192) // the logs of pipelines leave 64 MiB free, whatever journal.reserve is
	t.Cleanup(func() { s.agent.Kill() })
	s.startReady()
	s.publish15(0, 200)
	s.settled()
	ballast := filepath.Join(state, "ballast")
	f, err := os.Create(ballast)
	s.must(err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	s.must(f.Close())
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	s.publish15(200, 1200) // more than the segment under way can take
	full := func(st api.Status) bool {
		return (st.Journal.Full || st.Journal.Waits != "") && strings.Contains(strings.Join(st.Problems, "\n"), "journal")
	}
	s.eventually("the journal cannot be written", full)
	before, began := s.cpu(), time.Now()
	time.Sleep(3 * time.Second)
	if used, wall := s.cpu()-before, time.Since(began); used > wall/10 {
		t.Errorf("waiting takes %s of %s", used, wall)
	} else {
		t.Logf("waiting takes %s of %s", used, wall)
	}
	s.agent.Kill()
	s.start()
	s.eventually("it starts on the full disk", func(st api.Status) bool { return full(st) && st.Pipelines[0].State == "running" })
	s.must(os.Remove(ballast))
	s.settled()
	s.stop()
	rows := map[int]int{}
	for _, r := range s.sinkData("up.jsonl") {
		rows[decode[struct{ Seq int }](t, r).Seq]++
	}
	for seq := range 1400 {
		if rows[seq] != 1 {
			t.Fatalf("row %d came %d times, of %d rows", seq, rows[seq], len(rows))
		}
	}

	if out, err := exec.Command("mount", "-o", "remount,ro", state).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	syscall.Sync()
	written := s.sectorsWritten(device)
	for range 3 {
		out, err := exec.Command(weir, "run", "-c", filepath.Join(s.dir, "weir.yaml")).CombinedOutput()
		if e := new(exec.ExitError); !errors.As(err, &e) || e.ExitCode() != 1 || !strings.Contains(string(out), "read-only") || !strings.Contains(string(out), state) || !strings.Contains(string(out), "dmesg") {
			t.Fatalf("a start on a read-only disk: %v: %s", err, out)
		}
	}
	syscall.Sync()
	if n := s.sectorsWritten(device) - written; n > 0 {
		t.Errorf("three starts on a read-only disk wrote %d sectors", n)
	}
	if out, err := exec.Command("mount", "-o", "remount,rw", state).CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	s.startReady()
	s.publish15(1400, 10)
	s.settled()
	s.stop()
	if n := len(s.sinkData("up.jsonl")); n != 1410 {
		t.Errorf("%d rows upstream, want 1410", n)
	}
}
