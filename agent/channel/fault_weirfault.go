//go:build weirfault

package channel

import "os"

// plantedFaults: WEIR_FAULT=fleet-… has the agent itself make a mistake, which tests/fleet must find.
func plantedFaults(f faults) faults {
	switch os.Getenv("WEIR_FAULT") {
	case "fleet-twice":
		f.actFirst = true
	case "fleet-any-serial":
		f.anySerial = true
	case "fleet-any-place":
		f.anyPlace = true
	case "fleet-every-ring":
		f.everyRing = true
	case "fleet-talks":
		f.toldAlways = true
	}
	return f
}
