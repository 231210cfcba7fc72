package agent

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/flash"
)

// fakeCard is a machine with one eMMC, whose counters the test sets.
type fakeCard struct {
	t    *testing.T
	root string
	sys  flash.System
	base uint64 // bytes of others
}

func newFakeCard(t *testing.T, options string) *fakeCard {
	c := &fakeCard{t: t, root: t.TempDir()}
	c.sys = flash.System{Sys: filepath.Join(c.root, "sys"), Proc: filepath.Join(c.root, "proc")}
	c.put("proc/self/mountinfo", "24 1 179:1 / / rw - ext4 /dev/mmcblk0p1 "+options+"\n")
	c.put("proc/sys/kernel/random/boot_id", "one\n")
	c.put("sys/devices/block/mmcblk0/device/type", "MMC\n")
	c.put("sys/devices/block/mmcblk0/device/life_time", "0x02 0x01\n")
	c.put("sys/devices/block/mmcblk0/device/pre_eol_info", "0x01\n")
	c.put("sys/devices/block/mmcblk0/queue/write_cache", "write back\n")
	c.put("sys/devices/block/mmcblk0/mmcblk0p1/partition", "1\n")
	for link, to := range map[string]string{"sys/block/mmcblk0": "devices/block/mmcblk0", "sys/dev/block/179:1": "devices/block/mmcblk0/mmcblk0p1"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(c.root, link)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(c.root, "sys", to), filepath.Join(c.root, link)); err != nil {
			t.Fatal(err)
		}
	}
	c.wrote(0, 0)
	return c
}

// soundStorage is one of which nothing is found: what a test sees must not depend on where the directory of tests lies, which may be memory or an overlay.
func soundStorage(t *testing.T) flash.System {
	card := newFakeCard(t, "rw")
	card.put("sys/devices/block/mmcblk0/queue/write_cache", "write through\n")
	return card.sys
}

func (c *fakeCard) put(name, content string) {
	c.t.Helper()
	path := filepath.Join(c.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil { // a reader sees all or nothing, as in sysfs
		c.t.Fatal(err)
	}
}

func (c *fakeCard) wrote(bytes, own uint64) {
	c.put("sys/devices/block/mmcblk0/stat", fmt.Sprintf("1 0 8 0 2 0 %d 0 0 0 0 0 0 0 0 3 0\n", bytes/512))
	c.put("proc/self/io", fmt.Sprintf("write_bytes: %d\n", own))
}

func flashBench(t *testing.T, card *fakeCard, flashConfig string) *bench {
	b := newBench(t, pipelineNamed("p", "log"))
	b.text += "\nflash: " + flashConfig + "\n"
	b.options.system, b.options.flashEvery = card.sys, 20*time.Millisecond
	return b
}

// busy has a message come and the disk take what the journal wrote, and as much again of checkpoints.
func (c *fakeCard) busy(b *bench, id *int) {
	*id++
	b.put(*id, *id)
	own := b.agent.journal.Stats().Log.PagesWritten * 4096 * 2
	c.base += 4096 // others
	c.wrote(c.base+own, own)
}

// TestGovernorStretchesARunningAgent: too much reaches the disk, linger and checkpoints are stretched to the user's limits and no further, new attempts too; when it
// ends they are as configured.
func TestGovernorStretchesARunningAgent(t *testing.T) {
	card := newFakeCard(t, "rw")
	b := flashBench(t, card, "{daily_budget: 1MiB, tbw: 8TB, max_linger: 200ms, max_linger_immediate: 1s, max_checkpoint_interval: 1s}")
	b.start()
	id := 0
	s := b.await("a stretch of everything", func(s *api.Status) bool {
		card.busy(b, &id)
		f := s.Flash
		if f.Linger.Now > 0.2 || f.Interval.Now > 1 {
			t.Fatalf("beyond the limits: %+v %+v", f.Linger, f.Interval)
		}
		return f.Linger.Now == 0.2 && f.Interval.Now == 1 && s.Pipelines[0].State == "running"
	})
	if f := s.Flash; f.Why == "" || f.Disk != "mmcblk0" || f.Kind != "eMMC" || f.UsedMost != 0.2 || f.Budget != 1<<20 || f.DayBytes == 0 || f.DayOwn == 0 {
		t.Errorf("%+v", f)
	}
	if at := b.agent.all()[0].running(); at == nil || at.agent.flash.LeastInterval() != time.Second {
		t.Error("the coordinators are not told")
	}
	s = b.await("what is told when nothing helps", func(s *api.Status) bool {
		card.busy(b, &id)
		return s.Flash.Short != ""
	})
	if all := strings.Join(s.Problems, "\n"); !strings.Contains(all, "the flash budget of the day will be passed") {
		t.Errorf("problems: %s", all)
	}
	var metrics bytes.Buffer
	b.agent.WriteMetrics(&metrics)
	for _, want := range []string{`weir_flash_stretched{disk="mmcblk0"} 1`, `weir_flash_linger_seconds{disk="mmcblk0"} 0.2`, `weir_flash_spare_level{disk="mmcblk0"} 1`} {
		if !strings.Contains(metrics.String(), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	b.await("results", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= uint64(id) })
	b.halt()
	day := s.Flash.DayBytes
	b.start()
	s = b.await("a start", func(s *api.Status) bool { return s.Flash != nil })
	if s.Flash.DayBytes < day {
		t.Errorf("%d bytes in the day after a restart, %d before", s.Flash.DayBytes, day)
	}
	b.halt()
	b.wantIDs("p", [2]int{1, id})
}

// TestImmediateResultsBoundTheStretch: an alarm that leaves at once does not wait longer for the journal than the config says.
func TestImmediateResultsBoundTheStretch(t *testing.T) {
	card := newFakeCard(t, "rw")
	b := flashBench(t, card, "{daily_budget: 1MiB, max_linger: 5s, max_linger_immediate: 40ms, max_checkpoint_interval: 1s}")
	b.start()
	id := 0
	s := b.await("a stretch", func(s *api.Status) bool {
		card.busy(b, &id)
		return s.Flash.Short != ""
	})
	if s.Flash.Linger.Now != 0.04 {
		t.Errorf("linger %v with a sink commit: immediate, want 0.04", s.Flash.Linger)
	}
	b.halt()
}

// TestGovernorOff tells and changes nothing; without a budget nothing is told.
func TestGovernorOff(t *testing.T) {
	card := newFakeCard(t, "rw")
	b := flashBench(t, card, "{daily_budget: 1MiB, governor: off}")
	b.start()
	written := uint64(0)
	s := b.await("the budget is passed", func(s *api.Status) bool {
		written += 64 << 20
		card.wrote(written, written)
		return s.Flash.Short != ""
	})
	if s.Flash.Linger.Stretched() || s.Flash.Interval.Stretched() || !strings.Contains(s.Flash.Short, "the governor is off") {
		t.Errorf("%+v", s.Flash)
	}
	b.halt()
}

// TestStorageFindings: what does not fit is told at the start, in the status, and by weir check; the agent starts all the same.
func TestStorageFindings(t *testing.T) {
	card := newFakeCard(t, "rw,nobarrier,data=writeback")
	card.put("proc/fs/ext4/mmcblk0p1/fc_info", "fc stats:\n3 commits\n0 ineligible\n9 numblks\n1us avg_commit_time\n")
	b := flashBench(t, card, "{}")
	b.start()
	s := b.await("a start", func(s *api.Status) bool { return s.Flash != nil })
	all := strings.Join(s.Problems, "\n")
	for _, want := range []string{"mounted with nobarrier", "mounted with data=writeback", "fast_commit", "did not flush the write cache of mmcblk0"} { // the counter of flushes stands still
		if !strings.Contains(all, want) {
			t.Errorf("%q is not told: %s", want, all)
		}
	}
	b.halt()
}

// TestRecordThatStaysIsNoAlarm: where a newer version's record is left alone nothing is written that could show a flush, and none is missed.
func TestRecordThatStaysIsNoAlarm(t *testing.T) {
	b := flashBench(t, newFakeCard(t, "rw"), "{}")
	if err := os.MkdirAll(filepath.Join(b.dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.dir, "state", flash.File), []byte(`{"version":2}`), 0o600); err != nil {
		t.Fatal(err)
	}
	b.start()
	s := b.await("a start", func(s *api.Status) bool { return s.Flash != nil })
	if all := strings.Join(s.Problems, "\n"); strings.Contains(all, "did not flush") || !strings.Contains(s.Flash.Sync, "was not tried") {
		t.Errorf("%q, problems: %s", s.Flash.Sync, all)
	}
	b.halt()
}
