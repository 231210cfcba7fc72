//go:build weirfault

package snapshot

import (
	"os"
	"strconv"
	"time"
)

// What comes too early is ahead of what should have come before it for so long that a kill falls between them.
const (
	releasePause = 150 * time.Millisecond
	trimPause    = 600 * time.Millisecond // most of the time from one checkpoint to the next
)

// plantedFaults are those that the environment asks for: the crash run must find them. WEIR_ABORT_EVERY=n is no fault: every n-th
// checkpoint fails before its manifest, as it would on a disk that does.
func plantedFaults() faults {
	name := os.Getenv("WEIR_FAULT")
	f := faults{
		trimBeforePrune: name == "prune-after-trim", retainNewest: name == "retain-newest", releaseEarly: name == "release-early",
		forgetAborted: name == "forget-aborted",
	}
	switch {
	case f.releaseEarly:
		f.pause = releasePause
	case f.trimBeforePrune:
		f.pause = trimPause
	}
	if once, asked := os.LookupEnv("WEIR_HANG_SNAPSHOT"); asked { // a writer does not return, once: if the file can be removed. The watchdog must find it
		f.hang = func() {
			if os.Remove(once) == nil {
				time.Sleep(24 * time.Hour)
			}
		}
	}
	f.abortEvery, _ = strconv.ParseUint(os.Getenv("WEIR_ABORT_EVERY"), 10, 64) // 0, none, when it is no number
	return f
}

// plantedStoreFaults: WEIR_FAULT=manifest-first. The manifest of a checkpoint is durable before the changes that it names. The power cuts must find it.
func plantedStoreFaults() storeFaults {
	return storeFaults{manifestFirst: os.Getenv("WEIR_FAULT") == "manifest-first"}
}
