package outbox

import (
	"testing"
	"time"

	"github.com/weirstream/weir/store/disk/disktest"
)

// TestRule09_Rule10_CrashAnywhere crashes pipelines at random places and checks, at every start, that each retained
// checkpoint's range is whole, and at the end that upstream holds each result once.
func TestRule09_Rule10_CrashAnywhere(t *testing.T) {
	base := uint64(time.Now().UnixNano())
	t.Logf("seed %d", base)
	crashes := 0
	for i := range uint64(800) {
		w := newWorld(base+i, i%4 == 0, faults{})
		if err := w.run(120); err != nil {
			t.Fatalf("seed %d nondet %v: %v", base+i, w.nondet, err)
		}
		crashes += w.crashes
	}
	t.Logf("%d crash states", crashes)
}

// TestRule09_Rule10_CrashStates tries every point within the operations: each write, sync, create and rename of the log, with what a
// power cut may leave of it.
func TestRule09_Rule10_CrashStates(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	crasher := &disktest.Crasher{Seed: seed, PerCall: 16}
	for i := uint64(0); crasher.Distinct() < 2500; i++ {
		w := newWorld(seed+i, i%3 == 0, faults{})
		w.crasher = crasher
		if err := w.run(40); err != nil {
			t.Fatalf("seed %d+%d: %v", seed, i, err)
		}
	}
	t.Logf("%d distinct states", crasher.Distinct())
}

// The planted faults: each must be found by the same check.

func TestRule14_PlantedReleaseBeforeManifest(t *testing.T) {
	// Harmless with deterministic operators: a test that found it there would be wrong.
	mustPass(t, false, faults{releaseAtSeal: true})
	mustFind(t, true, faults{releaseAtSeal: true})
}

func TestRule09_PlantedNoCut(t *testing.T) { mustFind(t, false, faults{keepAtCut: true}) }

// TestRule09_LostCutIsHarmless: the cut is synced as the rule wants, but nothing hangs on it alone: every restore cuts again before
// anything is emitted or read, and Seal syncs what it relies on.
func TestRule09_LostCutIsHarmless(t *testing.T) {
	mustPass(t, false, faults{cutNotSynced: true})
	mustPass(t, true, faults{cutNotSynced: true})
}

func TestPlantedSkipNotDurableBeforeSend(t *testing.T) {
	mustFind(t, false, faults{skipNotSynced: true})
}

func TestRule10_PlantedTrimBeforeMarksAreDurable(t *testing.T) {
	mustFind(t, false, faults{trimBeforeMarks: true})
}

// TestPlantedDropOfWhatIsUnderWay: a result that the sender has may be upstream as data; a gap in its place would make the ledger lie.
func TestPlantedDropOfWhatIsUnderWay(t *testing.T) { mustFind(t, false, faults{dropInFlight: true}) }

// TestPlantedSilentExpiry: without a gap the numbers that expired are missing upstream.
func TestPlantedSilentExpiry(t *testing.T) { mustFind(t, false, faults{expireSilently: true}) }

func mustFind(t *testing.T, nondet bool, f faults) {
	t.Helper()
	for seed := range uint64(60) {
		w := newWorld(seed, nondet, f)
		w.crasher = &disktest.Crasher{Seed: seed, PerCall: 4}
		if err := w.run(120); err != nil {
			t.Logf("found with seed %d: %v", seed, err)
			return
		}
	}
	t.Fatalf("planted fault %+v was not found", f)
}

func mustPass(t *testing.T, nondet bool, f faults) {
	t.Helper()
	for seed := range uint64(100) {
		if err := newWorld(seed, nondet, f).run(120); err != nil {
			t.Fatalf("seed %d: %+v is harmless here: %v", seed, f, err)
		}
	}
}
