//go:build weirfault

package agent

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/pipeline"
)

// plantedDeath: with WEIR_DIE_AT=STEP the agent is killed, as by kill -9, when it comes to this step of a requeue, an apply or an upgrade. With WEIR_PLANT=DIR the step is what DIR/step says, once: the file is DIR/reached then. Where
// it says "STEP pause", the agent stands there until DIR/reached is gone. DIR/then, if there is one, is the step behind it.
func plantedDeath(at string) {
	die := at == os.Getenv("WEIR_DIE_AT")
	if dir := os.Getenv("WEIR_PLANT"); dir != "" && !die {
		b, _ := os.ReadFile(filepath.Join(dir, "step"))
		words, reached := strings.Fields(string(b)), filepath.Join(dir, "reached")
		if len(words) == 0 || words[0] != at || os.Rename(filepath.Join(dir, "step"), reached) != nil {
			return
		}
		os.Rename(filepath.Join(dir, "then"), filepath.Join(dir, "step"))
		for die = len(words) == 1; !die; time.Sleep(10 * time.Millisecond) {
			if _, err := os.Stat(reached); errors.Is(err, fs.ErrNotExist) {
				return
			}
		}
	}
	if die {
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// plantedTail gives a word of the last line of this program's file, "… version=1.1.0 bad=crash\n": two programs of one build, which are what a release says of them. "": it has none.
func plantedTail(name string) string {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	b := make([]byte, 64)
	if _, err := f.ReadAt(b, info.Size()-int64(len(b))); err != nil {
		return ""
	}
	for _, word := range strings.Fields(string(b)) {
		if is, found := strings.CutPrefix(word, name+"="); found {
			return is
		}
	}
	return ""
}

// plantedBad is how this program is broken: what WEIR_BAD says or, so that it is the program's own and not the machine's, what its file ends with: " bad=HOW\n". "": it is not.
var plantedBad = sync.OnceValue(func() string {
	if bad := os.Getenv("WEIR_BAD"); bad != "" {
		return bad
	}
	return plantedTail("bad")
})

// Broken from its first instruction on: with crash weir run ends at once, with silent it is never ready, with hungry it takes memory until it is killed, with hang a task does not return.
func init() {
	if is := plantedTail("version"); is != "" {
		version = is
	}
	if len(os.Args) < 2 || os.Args[1] != "run" {
		return
	}
	switch plantedBad() {
	case "crash":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "silent":
		time.Sleep(24 * time.Hour)
	case "hungry":
		for taken := [][]byte(nil); len(taken) < 1<<16; {
			taken = append(taken, bytes.Repeat([]byte{1}, 1<<20))
		}
	case "hang":
		if f, err := os.CreateTemp("", "hang"); err == nil {
			os.Setenv("WEIR_HANG_TASK", f.Name())
			f.Close()
		}
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
	if err != nil {
		return (plantedSilence() || plantedBad() == "stand") && on >= silenceLimit
	}
	return on >= d
}

// silenceLimit is how long a program may be on trial that is planted to be silent, or to stand still.
const silenceLimit = 3 * time.Second

// plantedTrial: with WEIR_BAD=exit a program on trial ends at once; with WEIR_BAD=corrupt it first spoils every checkpoint store and outbox.
func plantedTrial(pipelines string) {
	bad := plantedBad()
	if bad == "corrupt" {
		filepath.WalkDir(pipelines, func(name string, d fs.DirEntry, err error) error { //nolint:errcheck // what is there is spoiled
			if err != nil || d.IsDir() {
				return nil
			}
			if in := filepath.Base(filepath.Dir(name)); in == statedir.LogStoreDir || strings.HasPrefix(in, "s-") {
				return os.WriteFile(name, []byte(strings.Repeat("spoiled ", 1000)), 0o600)
			}
			return nil
		})
	}
	if bad == "corrupt" || bad == "exit" {
		os.Exit(2)
	}
}

// plantedStandstill: with WEIR_BAD=stand a program on trial never comes to judge itself. The watchdog must find it.
func plantedStandstill() {
	if plantedBad() == "stand" {
		select {}
	}
}

// plantedSilence: with WEIR_BAD=sink a sink of a program on trial does not answer; with WEIR_BAD=spoil neither, but that one passes if it is to be killed
// when it has: once it has made wrong rows.
func plantedSilence() bool {
	bad := plantedBad()
	return bad == "sink" || bad == "spoil" && (os.Getenv("WEIR_DIE_AT") != "upgrade-before-probation-passed" || !rubbishMade.Load())
}

var rubbishMade atomic.Bool

// plantedRubbish: with WEIR_BAD=spoil a program makes wrong rows of what is held back.
func plantedRubbish(held bool, s pipeline.ResultSink) pipeline.ResultSink {
	if held && plantedBad() == "spoil" {
		return rubbish{s}
	}
	return s
}

type rubbish struct{ pipeline.ResultSink }

// Emit implements pipeline.ResultSink.
func (r rubbish) Emit(ctx context.Context, results []pipeline.Result) error {
	for i := range results {
		for _, wrong := range [][2]string{{`"id":`, `"id":7`}, {`"n":`, `"n":7`}, {`"k":"d`, `"k":"x`}, {`"step":1`, `"step":7`}} {
			results[i].Payload = bytes.ReplaceAll(results[i].Payload, []byte(wrong[0]), []byte(wrong[1]))
		}
	}
	defer rubbishMade.Store(true)
	return r.ResultSink.Emit(ctx, results)
}

// plantedDelivery waits until upstream has what was let go, so that the fault shows.
func (a *Agent) plantedDelivery() {
	for {
		left := uint64(0)
		for _, s := range a.all() {
			if at := s.running(); at != nil {
				for _, l := range at.links {
					left += l.Queue.Stats().Held
				}
			}
		}
		if left == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// fleetPollOf: WEIR_FLEET_POLL=DURATION has a gateway look for documents more often than a config may say.
func fleetPollOf(set time.Duration) time.Duration {
	if d, err := time.ParseDuration(os.Getenv("WEIR_FLEET_POLL")); err == nil {
		return d
	}
	return set
}

// plantedUnrestored: with WEIR_BAD=restore a program on trial cannot restore a savepoint.
func plantedUnrestored() error {
	if plantedBad() == "restore" {
		return errors.New("planted: the savepoint is not understood")
	}
	return nil
}
