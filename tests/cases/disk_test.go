package cases

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/receiver"
	"github.com/weirstream/weir/uplink/wire"
)

// smallExt4 mounts an ext4 of so many MiB, in a file on a loop device.
func smallExt4(t *testing.T, dir string, mib int) (device string) {
	t.Helper()
	return mountImage(t, ext4Image(t, mib), dir)
}

// ext4Image makes it.
func ext4Image(t *testing.T, mib int) (image string) {
	t.Helper()
	where, err := os.MkdirTemp("/dev/shm", "weir-disk-") // in memory, where there is such a place
	if err != nil {
		where = t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(where) })
	image = filepath.Join(where, "disk.img")
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, int64(mib)<<20); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0", image).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED HERE: no ext4 can be made: %v %s", err, out)
	}
	return image
}

// mountImage gives the name of the loop device.
func mountImage(t *testing.T, image, dir string) (device string) {
	t.Helper()
	if out, err := exec.Command("mount", "-o", "loop,noatime", image, dir).CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED HERE: no loop device can be mounted: %v %s", err, out)
	}
	t.Cleanup(func() { exec.Command("umount", "-l", dir).Run() })
	return deviceOf(t, dir)
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

// failsToStart tries three starts; each ends with code 1 and says so. It gives how many sectors that wrote.
func (s *site) failsToStart(device string, says ...string) uint64 {
	s.t.Helper()
	syscall.Sync()
	written := s.sectorsWritten(device)
	for range 3 {
		out, err := exec.Command(weir, "run", "-c", filepath.Join(s.dir, "weir.yaml")).CombinedOutput()
		if e := new(exec.ExitError); !errors.As(err, &e) || e.ExitCode() != 1 {
			s.t.Fatalf("a start that must fail: %v: %s", err, out)
		}
		for _, text := range says {
			if !strings.Contains(string(out), text) {
				s.t.Errorf("it does not say %q: %s", text, out)
			}
		}
	}
	syscall.Sync()
	return s.sectorsWritten(device) - written
}

// seqs are the rows that a receiver has, by their number.
func (s *site) seqs(r *receiver.Receiver) map[int]int {
	s.t.Helper()
	var registry struct{ Pipelines map[string]string }
	b, err := os.ReadFile(filepath.Join(s.dir, "state", "pipelines.json"))
	s.must(err)
	s.must(json.Unmarshal(b, &registry))
	rows := map[int]int{}
	id := strings.ReplaceAll(registry.Pipelines["bulk"], "-", "")
	s.must(r.Records(uplink.Stream{Gateway: "cases", Pipeline: id, Sink: "up"}, func(_ uint64, l wire.Line) error {
		rows[decode[struct{ Seq int }](s.t, string(l.Data)).Seq]++
		return nil
	}))
	return rows
}

// exactly demands each number once.
func (s *site) exactly(r *receiver.Receiver, n int) {
	s.t.Helper()
	rows := s.seqs(r)
	for seq := range n {
		if rows[seq] != 1 {
			s.t.Fatalf("row %d came %d times, of %d rows", seq, rows[seq], len(rows))
		}
	}
	if len(rows) != n {
		s.t.Errorf("%d rows upstream, want %d", len(rows), n)
	}
}

// waitingSectors bounds what three seconds of waiting write: of ext4 itself, which may still write its journal back.
const waitingSectors = 128

// TestRealDiskFullThenReadOnly: another process fills an ext4 to the last block while the agent runs; the agent waits, is killed, starts on the full disk, waits, and goes on by
// itself when there is space. Then starts that cannot succeed, on the same disk and on the read-only one: each ends at once, with the reason, and writes nothing.
func TestRealDiskFullThenReadOnly(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED HERE: a loop device needs root")
	}
	far, err := receiver.Open(receiver.Options{Path: filepath.Join(t.TempDir(), "far.db"), Config: receiver.Default(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	server := httptest.NewServer(far)
	t.Cleanup(server.Close)
	s := newSite(t, bulkSite("0", `http: {url: "`+server.URL+`"}`))
	state := filepath.Join(s.dir, "state")
	s.must(os.Mkdir(state, 0o755))
	device := smallExt4(t, state, 64)
	t.Cleanup(func() {
		if s.agent != nil {
			s.agent.Kill()
		}
	})
	s.startReady()
	s.publish15(0, 200)
	s.settled()
	ballast := filepath.Join(state, "ballast")
	s.must(rig.FillDisk(state))
	s.publish15(200, 1200) // more than the segment under way can take
	full := func(st api.Status) bool {
		return (st.Journal.Full || st.Journal.Waits != "") && strings.Contains(strings.Join(st.Problems, "\n"), "journal")
	}
	s.eventually("the journal cannot be written", full)
	syscall.Sync()
	before, began, sectors := s.cpu(), time.Now(), s.sectorsWritten(device)
	time.Sleep(3 * time.Second)
	used, wall := s.cpu()-before, time.Since(began)
	syscall.Sync()
	sectors = s.sectorsWritten(device) - sectors
	if t.Logf("waiting takes %s of %s and writes %d sectors", used, wall, sectors); used > wall/10 || sectors > waitingSectors {
		t.Errorf("waiting takes %s of %s and writes %d sectors", used, wall, sectors)
	}
	s.agent.Kill()
	s.start()
	s.eventually("it starts on the full disk", func(st api.Status) bool { return full(st) && st.Pipelines[0].State == "running" })
	s.must(os.Remove(ballast))
	s.settled()
	s.stop()
	s.exactly(far, 1400)

	l, err := net.Listen("unix", s.socket())
	s.must(err)
	if n := s.failsToStart(device, "socket is in use", s.socket()); n > 0 {
		t.Errorf("three starts with the socket in use wrote %d sectors", n)
	}
	s.must(l.Close())
	remount := func(how string) {
		if out, err := exec.Command("mount", "-o", "remount,"+how, state).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
	}
	remount("ro")
	if n := s.failsToStart(device, "read-only", state, "dmesg"); n > 0 {
		t.Errorf("three starts on a read-only disk wrote %d sectors", n)
	}
	remount("rw")
	s.startReady()
	s.publish15(1400, 10)
	s.settled()
	s.stop()
	s.exactly(far, 1410)
}
