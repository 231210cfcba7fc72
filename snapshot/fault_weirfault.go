//go:build weirfault

package snapshot

import (
	"os"
	"strconv"
	"time"
)

// plantedPause keeps what comes too early ahead of what should have come before it so long that a kill falls between them.
const plantedPause = 150 * time.Millisecond

// plantedFaults are those that the environment asks for: the crash run must find them. WEIR_ABORT_EVERY=n is no fault: every n-th
// checkpoint fails before its manifest, as it would on a disk that does.
func plantedFaults() faults {
	name := os.Getenv("WEIR_FAULT")
	f := faults{
		trimBeforePrune: name == "prune-after-trim", retainNewest: name == "retain-newest", releaseEarly: name == "release-early",
		forgetAborted: name == "forget-aborted",
	}
	if f.releaseEarly || f.trimBeforePrune {
		f.pause = plantedPause
	}
	f.abortEvery, _ = strconv.ParseUint(os.Getenv("WEIR_ABORT_EVERY"), 10, 64) // 0, none, when it is no number
	return f
}
