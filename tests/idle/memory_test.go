package idle

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
)

const (
	// residentMax is what an idle agent may have in memory: that of the build with everything, its program's mapped pages included.
	residentMax = 15 << 20
	// rested is for how long it has to stay below: longer than all that recurs, of which the collector's turn each two minutes is the rarest.
	rested = 150 * time.Second
)

// TestIdleIsSmall: the build with everything, as it is released, with the defaults of the config.
func TestIdleIsSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("takes four minutes")
	}
	t.Parallel()
	program := filepath.Join(t.TempDir(), "weir")
	if err := rig.MakeWeir("build", program); err != nil {
		t.Fatal(err)
	}
	child := agent(t, setup{program: program, defaults: true})
	if !comesToRest(t, child) {
		t.Fatalf("%.1f MiB resident of an agent without work, %d at most", mib(resident(t, child)), residentMax>>20)
	}
	before, most := written(t, child), int64(0)
	for end := time.Now().Add(rested); time.Now().Before(end); time.Sleep(poll) {
		most = max(most, resident(t, child))
	}
	t.Logf("%.1f MiB resident at most", mib(most))
	if most > residentMax {
		t.Errorf("%.1f MiB resident of an agent without work, %d at most", mib(most), residentMax>>20)
	}
	if n := written(t, child) - before; n != 0 {
		t.Errorf("%d bytes written without work", n)
	}
}

// TestHoardIsFound plants the fault: the agent gives back nothing of what its start needed.
func TestHoardIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("takes three minutes")
	}
	t.Parallel()
	program := filepath.Join(t.TempDir(), "weir")
	if err := rig.MakeWeir("build", program, "TAGS=nethttpomithttp2,weirfault"); err != nil {
		t.Fatal(err)
	}
	child := agent(t, setup{program: program, env: []string{"WEIR_FAULT=hoard"}, defaults: true})
	if comesToRest(t, child) {
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
