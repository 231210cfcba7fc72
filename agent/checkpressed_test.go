package agent

import (
	"testing"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

// TestRepairOnADyingDisk: fsck --repair on a disk of which every operation fails from some instant on ends, whichever that is, and a device that is well again holds what it held.
func TestRepairOnADyingDisk(t *testing.T) {
	d := press(t)
	for _, store := range pressedStores() {
		for _, pressure := range []disktest.Pressure{disktest.FailAll, disktest.ReadOnly, disktest.Full} {
			t.Run(store+"/"+pressure.Name, func(t *testing.T) {
				p := newPressed(t, d, store)
				p.lives(t, inTime())
				p.strain.Fail(pressure, 0, 0)
				repair := func() (*CheckReport, error) { return check(t.Context(), p.parse(), true, disk.OS) }
				if _, err := repair(); err != nil {
					t.Fatal(err)
				}
				ops, met := len(p.strain.Ops()), 0
				for k := 1; k <= ops; k += max(1, ops/8) {
					p.strain.Fail(pressure, k, -1)
					report, err := repair()
					n, by := p.strain.Failed()
					p.strain.Heal()
					if n > 0 {
						met++
					}
					if n > 60 {
						t.Errorf("at %d of %d: %d tries: %v", k, ops, n, by)
					}
					if err == nil && n > 0 && len(report.Stops) == 0 && store != config.StorePebble { // there it may be work of Pebble's own, as it closes
						t.Errorf("at %d of %d: %v, and it says that all is well", k, ops, by)
					}
				}
				if met == 0 {
					t.Error("nothing met it")
				}
				p.publish(25)
				if !p.until(inTime()) {
					t.Fatalf("not settled: %v", p.problems())
				}
				p.down(t)
				p.check(t)
			})
		}
	}
}
