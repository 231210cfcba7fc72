//go:build !weirfault

package agent

import "time"

// plantedDeath is where a test kills the agent; this build has none.
func plantedDeath(string) {}

// plantedLate is how many records behind a savepoint a restore leaves out; this build leaves out none.
func plantedLate() uint64 { return 0 }

// sinkWaitOf is how long an apply waits for the answers of new sinks; tests shorten it.
func sinkWaitOf() time.Duration { return gateWait }

// plantedUnheld is a fault of applies; this build has none.
func plantedUnheld() bool { return false }
