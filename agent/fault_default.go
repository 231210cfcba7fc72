//go:build !weirfault

package agent

import (
	"time"

	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/pipeline"
)

// plantedDeath is where a test kills the agent; this build has none.
func plantedDeath(string) {}

// plantedDeafness: a device that is told of its fence does not act on it; this build has none that is deaf.
const plantedDeafness = false

// plantedMeekness: a replacement that is not told from the device before; this build has none.
func plantedMeekness(*identity.Record) bool { return false }

// plantedLate is how many records behind a savepoint a restore leaves out; this build leaves out none.
func plantedLate() uint64 { return 0 }

// sinkWaitOf is how long an apply waits for the answers of new sinks; tests shorten it.
func sinkWaitOf() time.Duration { return gateWait }

// plantedHangingStart is a start of a pipeline that does not return; this build has none.
func plantedHangingStart() {}

// stuckFor is stuckAfter; tests shorten it.
func stuckFor() time.Duration { return stuckAfter }

// plantedUnheld is a fault of applies; this build has none.
func plantedUnheld() bool { return false }

// plantedUncut is a fault of going back to a savepoint; this build has none.
func plantedUncut() bool { return false }

// plantedHasty is a fault of upgrades; this build has none.
func plantedHasty() bool { return false }

// trialLeastOf is how long any program is on trial; tests shorten it.
func trialLeastOf() time.Duration { return trialLeast }

// trialOver tells nothing: how long a program may be on trial is the record's; tests shorten it.
func trialOver(time.Duration) bool { return false }

// plantedTrial is a program on trial that is broken; this build has none.
func plantedTrial(string) {}

// fleetPollOf is how often a gateway looks for documents; tests shorten it.
func fleetPollOf(set time.Duration) time.Duration { return set }

// plantedSilence is a sink that does not answer a program on trial; this build has none.
func plantedSilence() bool { return false }

// plantedRubbish is a program on trial whose results are wrong; this build has none.
func plantedRubbish(_ bool, s pipeline.ResultSink) pipeline.ResultSink { return s }

// plantedDelivery waits until what a hasty program let go has left; this build has none.
func (a *Agent) plantedDelivery() {}

// plantedUnrestored is a program on trial that cannot restore a savepoint; this build has none.
func plantedUnrestored() error { return nil }
