package device

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/store/disk/disktest"
	"github.com/weirstream/weir/tests/rig/volatiledisk"
)

// TestPlantedFaults shows that the run can fail: a weir that syncs nothing, and one that leaves out the flush of the device where it overwrites in place, are
// found; the same weir without a fault is exact in the same run.
func TestPlantedFaults(t *testing.T) {
	needMachine(t)
	weir := weirFor(t, true)
	faults := []disktest.Mistake{disktest.NoSync, disktest.NoFlush}
	if form() == "long" {
		faults = append(faults, "") // else TestDirectBoot is the run without
	}
	for _, fault := range faults {
		name := string(fault)
		if fault == "" {
			name = "none"
		}
		t.Run(name, func(t *testing.T) {
			h, err := hardwareFor(t.Context(), t.TempDir(), weir, plain, "WEIR_FAULT="+string(fault))
			here(t, err)
			if found := faultFound(t, h); found != (fault != "") {
				t.Errorf("found: %v", found)
			}
		})
	}
}

// faultFound cuts the power of a machine that should have much to lose.
func faultFound(t *testing.T, h hardware) bool {
	st := newStage(t, h, seed(t), "now-a", "later-b")
	st.modes = []volatiledisk.Mode{volatiledisk.Drop}
	st.boot()
	st.startFeed()
	for range cutsOf(1, 2) {
		st.must(st.follow(100, patience))
		time.Sleep(time.Duration(st.random.IntN(1000)) * time.Millisecond)
		for deadline := time.Now().Add(unflushedMost); time.Now().Before(deadline) && st.disk.Counters().Unflushed < unflushedMany; {
			time.Sleep(time.Millisecond)
		}
		st.cut()
		if err := st.tryBoot(); err != nil {
			t.Log(err)
			return true
		}
	}
	v := st.finish(faultPatience)
	st.stop()
	return !v.exact()
}

// unflushedMany requests are more than a weir without a fault ever leaves.
const unflushedMany = 16

// faultPatience is longer than a checkpoint's interval, behind which later-b's results come. What is lost never comes.
const faultPatience = 45 * time.Second

// TestWhatBreaksIsToldAtOnce: neither a machine that never starts nor one that cannot mount its disk is waited for.
func TestWhatBreaksIsToldAtOnce(t *testing.T) {
	needMachine(t)
	h, err := hardwareFor(t.Context(), t.TempDir(), weirFor(t, false), plain)
	here(t, err)
	t.Run("no kernel", func(t *testing.T) {
		h := h
		h.kernel += "-that-is-not-there"
		if err := newStage(t, h, 1).tryBoot(); !errors.Is(err, errEnded) {
			t.Errorf("%v, want %v", err, errEnded)
		}
	})
	t.Run("no file system", func(t *testing.T) {
		st := newStage(t, h, 1)
		st.disk = volatiledisk.New(dataBytes)
		if err := st.tryBoot(); !errors.Is(err, errFailed) || !strings.Contains(err.Error(), "mount") {
			t.Errorf("%v, want %v", err, errFailed)
		}
	})
}
