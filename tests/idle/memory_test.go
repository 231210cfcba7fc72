package idle

import (
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
)

const (
	// residentMax is what an idle agent may have in memory: that of the build with everything, its program's mapped pages included.
	residentMax = 15 << 20
	// rested is for how long it has to stay below, but for a twentieth of it, in which the collector has its turn: longer than all that recurs, of which that, each two minutes, is the rarest.
	rested = 130 * time.Second
)

// TestIdleIsSmall: the build with everything, with the defaults of the config. Beside it an agent with a planted fault, which gives back nothing of what its start needed, must be found.
func TestIdleIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("takes three minutes")
	}
	t.Parallel()
	faulty := filepath.Join(t.TempDir(), "weir-faulty")
	if err := rig.MakeWeir("build", faulty, "TAGS=nethttpomithttp2,weirfault"); err != nil {
		t.Fatal(err)
	}
	hoard := start(t, setup{program: faulty, env: []string{"WEIR_FAULT=hoard"}, defaults: true})
	child := agent(t, setup{program: weir, defaults: true})
	if !comesToRest(t, child) {
		t.Fatalf("%.1f MiB resident of an agent without work, %d at most", mib(resident(t, child)), residentMax>>20)
	}
	before, least := written(t, child), int64(math.MaxInt64)
	var looks []int64
	for end := time.Now().Add(rested); time.Now().Before(end); time.Sleep(poll) {
		looks = append(looks, resident(t, child))
		least = min(least, resident(t, hoard))
	}
	slices.Sort(looks)
	most := looks[len(looks)*19/20]
	t.Logf("%.1f MiB resident in 19 of 20 looks, %.1f in half of them, %.1f at most; %.1f where nothing is given back", mib(most), mib(looks[len(looks)/2]), mib(looks[len(looks)-1]), mib(least))
	if most > residentMax {
		t.Errorf("%.1f MiB resident of an agent without work, %d at most", mib(most), residentMax>>20)
	}
	if n := written(t, child) - before; n != 0 {
		t.Errorf("%d bytes written without work", n)
	}
	if least <= residentMax {
		t.Error("an agent that keeps what its start needed is not found")
	}
}

// comesToRest waits until the agent has given back what it does not need.
func comesToRest(t *testing.T, child *rig.Child) bool {
	for end := time.Now().Add(rig.Patience); time.Now().Before(end); time.Sleep(poll) {
		if resident(t, child) <= residentMax {
			return true
		}
	}
	return false
}

func resident(t *testing.T, child *rig.Child) int64 {
	t.Helper()
	n, err := child.Resident()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }
