// Package flash measures what reaches a block device: an ext4 file system in a loop-mounted image, counted by the kernel, so that the
// file system's own journal and metadata are in it. It needs root and skips without.
package flash

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/journal"
	"github.com/weirstream/weir/store/log"
	"github.com/weirstream/weir/tests/rig"
)

// device is a loop-mounted ext4.
type device struct {
	dir  string
	stat string // /sys/block/loopN/stat
}

func mountExt4(t *testing.T) *device {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root to mount a loop device")
	}
	base := t.TempDir()
	image, dir := filepath.Join(base, "image"), filepath.Join(base, "mnt")
	if shm, err := os.MkdirTemp("/dev/shm", "weir-flash-"); err == nil { // what is counted is the loop device: the image may lie in memory
		t.Cleanup(func() { os.RemoveAll(shm) })
		image = filepath.Join(shm, "image")
	}
	run := func(name string, args ...string) string {
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			t.Skipf("%s %v: %v: %s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	f, err := os.Create(image)
	if err == nil {
		err = f.Truncate(1 << 30)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	run("mkfs.ext4", "-q", "-F", "-b", "4096", "-E", "lazy_itable_init=0,lazy_journal_init=0", image)
	run("mount", "-o", "loop,noatime", image, dir)
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	loop, _, ok := strings.Cut(run("losetup", "-j", image), ":")
	if !ok {
		t.Skip("losetup does not show the loop device")
	}
	return &device{dir: dir, stat: "/sys/block/" + filepath.Base(loop) + "/stat"}
}

// written is the number of bytes that the device was given so far, after a syncfs.
func (d *device) written(t *testing.T) int64 {
	t.Helper()
	f, err := os.Open(d.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(d.stat)
	if err != nil {
		t.Skipf("read device counters: %v", err)
	}
	fields := strings.Fields(string(b))
	sectors, err := strconv.ParseInt(fields[6], 10, 64) // field 7: sectors written, 512 bytes each
	if err != nil {
		t.Fatal(err)
	}
	return sectors * 512
}

// arrivals are recorded deliveries of real sensors (testdata/SOURCE.md).
func arrivals(t testing.TB) (entries []pipeline.Entry) {
	type delivery struct {
		Topic, Payload string
		QoS            uint8
	}
	for _, d := range rig.JSONLines[delivery](t, "testdata/arrivals.jsonl") {
		entries = append(entries, pipeline.Entry{Kind: pipeline.EntryMessage, QoS: d.QoS, PacketID: uint16(len(entries) + 1),
			Session: "plant", Source: "traffic", Topic: []byte(d.Topic), Payload: []byte(d.Payload)})
	}
	return entries
}

// TestJournalDeviceBytes: at 64 messages per commit at most 1.0 device byte per payload byte, in recycled segments.
func TestJournalDeviceBytes(t *testing.T) {
	const perCommit, target = 64, 1.0
	dev := mountExt4(t)
	c := log.Default()
	c.ReserveBytes = 0
	start := time.Now()
	j, _, err := journal.Open(journal.Options{Dir: filepath.Join(dev.dir, "journal"), Config: c,
		Stamp: func() pipeline.Stamp {
			return pipeline.Stamp{Elapsed: int64(time.Since(start)), Wall: time.Now().UnixMilli(), Trusted: true}
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	entries := arrivals(t)
	var payload int64
	pour := func(rounds int) {
		payload = 0
		for range rounds {
			for i := range entries {
				if _, err := j.Append(&entries[i]); err != nil {
					t.Fatal(err)
				}
				payload += int64(len(entries[i].Payload))
				if i%perCommit == perCommit-1 {
					if err := j.Sync(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			j.Retain("test", j.Durable())
			if err := j.Trim(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	fresh := dev.written(t)
	pour(40)
	first := float64(dev.written(t)-fresh) / float64(payload)
	before, stats := dev.written(t), j.Stats().Log
	pour(60)
	wrote, after := dev.written(t)-before, j.Stats().Log
	ratio := float64(wrote) / float64(payload)
	commits := after.Syncs - stats.Syncs
	t.Logf("recycled segments: %d payload bytes in %d commits: %d device bytes, %.3f per payload byte (%.0f per commit; frames %.3f); with making %d segments: %.3f",
		payload, commits, wrote, ratio, float64(wrote)/float64(commits), float64(after.BytesWritten-stats.BytesWritten)/float64(payload), after.SegmentsMade, first)
	if made := after.SegmentsMade - stats.SegmentsMade; made > 0 {
		t.Errorf("%d segments were made in steady state", made)
	}
	if ratio > target {
		t.Errorf("%.3f device bytes per payload byte, target %.1f", ratio, target)
	}
}
