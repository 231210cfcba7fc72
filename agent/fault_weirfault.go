//go:build weirfault

package agent

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/weirstream/weir/agent/identity"
)

// plantedDeath: with WEIR_DIE_AT=STEP the agent is killed, as by kill -9, when it comes to this step of a requeue.
func plantedDeath(at string) {
	if at == os.Getenv("WEIR_DIE_AT") {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// plantedDeafness: with WEIR_FAULT=deaf a device that is told of its fence does not act on it.
var plantedDeafness = os.Getenv("WEIR_FAULT") == "deaf"

// plantedMeekness: with WEIR_FAULT=meek a replacement has the incarnation of the device before, the board that WEIR_MEEK says, and no generation of its own: no upstream can tell them
// apart.
func plantedMeekness(r *identity.Record) bool {
	if os.Getenv("WEIR_FAULT") != "meek" {
		return false
	}
	r.Major, r.Minor, r.Token, r.LeastGeneration = 1, 0, os.Getenv("WEIR_MEEK"), 0
	r.Lineage = append(r.Lineage, r.Incarnation())
	return true
}

// plantedLate: with WEIR_FAULT=restore-late a restore goes on that many records behind the savepoint. The crash harness must find it.
func plantedLate() uint64 {
	if os.Getenv("WEIR_FAULT") == "restore-late" {
		return 3
	}
	return 0
}

// sinkWaitOf: WEIR_SINK_WAIT=DURATION shortens how long an apply waits for the answers of new sinks.
func sinkWaitOf() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("WEIR_SINK_WAIT")); err == nil {
		return d
	}
	return gateWait
}

// plantedHangingStart: WEIR_HANG_START=FILE. A start of a pipeline does not return, once: if the file can be removed. The watchdog must find it.
func plantedHangingStart() {
	if once, asked := os.LookupEnv("WEIR_HANG_START"); asked && os.Remove(once) == nil {
		time.Sleep(24 * time.Hour)
	}
}

// stuckFor: WEIR_STUCK_AFTER=DURATION shortens how long a part may stand still before the watchdog is not fed.
func stuckFor() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("WEIR_STUCK_AFTER")); err == nil {
		return d
	}
	return stuckAfter
}

// plantedUnheld: WEIR_FAULT=apply-unheld. The journal does not hold what the savepoint of an apply needs: going back finds the records gone.
func plantedUnheld() bool { return os.Getenv("WEIR_FAULT") == "apply-unheld" }

// plantedUncut: WEIR_FAULT=uncut. Going back leaves what was made behind the savepoint in the outbox.
func plantedUncut() bool { return os.Getenv("WEIR_FAULT") == "uncut" }

// plantedHasty: WEIR_FAULT=upgrade-hasty. Results are let go before the commit is durable.
func plantedHasty() bool { return os.Getenv("WEIR_FAULT") == "upgrade-hasty" }

// trialLeastOf: WEIR_TRIAL=DURATION shortens how long any program is on trial.
func trialLeastOf() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("WEIR_TRIAL")); err == nil {
		return d
	}
	return trialLeast
}

// trialOver: WEIR_TRIAL_LIMIT=DURATION shortens how long a program may be on trial.
func trialOver(on time.Duration) bool {
	d, err := time.ParseDuration(os.Getenv("WEIR_TRIAL_LIMIT"))
	return err == nil && on >= d
}

// plantedTrial: with WEIR_BAD=exit a program on trial ends at once; with WEIR_BAD=corrupt it first spoils every checkpoint store and outbox.
func plantedTrial(pipelines string) {
	bad := os.Getenv("WEIR_BAD")
	if bad == "corrupt" {
		filepath.WalkDir(pipelines, func(name string, d fs.DirEntry, err error) error { //nolint:errcheck // what is there is spoiled
			if err != nil || d.IsDir() {
				return nil
			}
			if in := filepath.Base(filepath.Dir(name)); in == logStoreDir || strings.HasPrefix(in, "s-") {
				return os.WriteFile(name, []byte(strings.Repeat("spoiled ", 1000)), 0o600)
			}
			return nil
		})
	}
	if bad == "corrupt" || bad == "exit" {
		os.Exit(2)
	}
}

// plantedSilence: with WEIR_BAD=sink a sink of a program on trial does not answer.
func plantedSilence() bool { return os.Getenv("WEIR_BAD") == "sink" }

// plantedUnrestored: with WEIR_BAD=restore a program on trial cannot restore a savepoint.
func plantedUnrestored() error {
	if os.Getenv("WEIR_BAD") == "restore" {
		return errors.New("planted: the savepoint is not understood")
	}
	return nil
}
