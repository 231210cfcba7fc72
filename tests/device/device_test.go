package device

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestDirectBoot cuts the power of a machine on which process 1 runs weir, as often as a run can: such a boot takes seconds.
func TestDirectBoot(t *testing.T) {
	needMachine(t)
	weir := weirFor(t, false)
	h, err := hardwareFor(t.Context(), t.TempDir(), weir, whole)
	here(t, err)
	powerCuts(t, h, cutsOf(5, 50), 1, nil)
}

// TestUnderSystemd cuts the power of a Debian on which weir's package is installed, and systemd runs it: while it works, and while it is upgraded.
func TestUnderSystemd(t *testing.T) {
	needMachine(t, "mmdebstrap")
	if os.Getuid() != 0 {
		t.Skipf("%v: the files of a root disk have owners, which root alone can give", errNotHere)
	}
	deb, err := buildPackage(t.Context(), filepath.Join(buildDir(t), "deb"))
	if err != nil {
		t.Fatal(err)
	}
	next := weirFor(t, true)
	h, err := hardwareWithSystemd(t.Context(), stageDir(t), programs{deb: deb, next: next, helper: faultyHelper(next)})
	here(t, err)
	if form() == "long" {
		t.Run("unsynced-slots", func(t *testing.T) { tornProgram(t, h, next) })
		t.Run("memory", func(t *testing.T) { memoryLimit(t, h) })
	}
	t.Run("cuts", func(t *testing.T) { powerCuts(t, h, cutsOf(1, 20), 0, func(st *stage) { upgraded(st, next) }) })
}

// powerCuts cuts the power at random, boots, and goes on. When boots are cheap, cutBoots cuts of six come while the machine boots. then is done to the machine at the end; nil: nothing.
func powerCuts(t *testing.T, h hardware, cuts, cutBoots int, then func(*stage)) {
	st := newStage(t, h, seed(t))
	st.boot()
	st.startFeed()
	for st.cuts < cuts {
		st.must(st.follow(10+st.random.IntN(recordsMost), patience))
		st.instant()
		st.cut()
		if st.random.IntN(6) < cutBoots && st.cuts < cuts {
			st.powerOn()
			time.Sleep(time.Duration(st.random.Int64N(int64(st.bootsTook[0]) * 3 / 2)))
			st.whileBooting++
			st.cut()
		}
		st.boot()
	}
	if then != nil {
		then(st)
	}
	v := st.finish(patience)
	used := st.stop()
	t.Logf("%d boots, %d of them ready, %d cuts (%d while the machine booted); the cuts found %d requests of %d not flushed; %.0f s of the host's CPU",
		st.boots, st.ready, st.cuts, st.whileBooting, st.lostRequests, st.spent, used.Seconds())
	if !v.exact() {
		t.Errorf("not exactly once: %v", v)
	}
	if want := st.boots - st.whileBooting; st.ready != want {
		t.Errorf("%d boots were ready, want %d", st.ready, want)
	}
}

// recordsMost arrive between a boot and the next cut: what gathered while the machine was off, and a few seconds more.
const recordsMost = 250

// stop ends the last machine, and gives the CPU time of all.
func (st *stage) stop() time.Duration {
	st.vm.powerOff()
	used, _ := st.vm.child.Usage()
	return st.cpu + used
}
