package device

import (
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
	for _, fault := range []disktest.Mistake{"", disktest.NoSync, disktest.NoFlush} {
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

// faultFound cuts the power of a machine that should have much to lose, up to three times.
func faultFound(t *testing.T, h hardware) bool {
	st := newStage(t, h, seed(t), "now-a", "later-b")
	st.modes = []volatiledisk.Mode{volatiledisk.Drop}
	st.boot()
	st.startFeed()
	for range 2 {
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
