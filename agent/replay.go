package agent

import (
	"context"
	"errors"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/store/outbox"
)

// A replacement replays what the device before has shipped of its journal (agent/takeover): the same records at the same positions under the same stamps, so that the results are those that the device
// before made, under the same numbers. Which of them it has delivered, upstream tells when a stream is opened; but that opening begins the new generation and is the last one to tell. So no stream is opened
// until the results of every shipped record are made and it is noted durably, per sink, which the last of them is. A crash before that does it again: nothing has left.

// replayPoll is how often it is looked whether the replay has come to its end.
const replayPoll = 20 * time.Millisecond

// replayBlocked is after how many looks in a row a full outbox ends the wait.
const replayBlocked = 100

// holdReplay keeps results back while those of shipped records are made. It comes before the outbox is cut.
func (a *attempt) holdReplay() {
	i, _ := a.inheritance() // inherited tells what is wrong; nothing is known to be inherited then
	a.settled = make(chan struct{})
	if a.replay = pipeline.Position(i.Replay); a.replay > 0 && !a.agent.options.replayUnheld {
		a.outbox.HoldBack()
		return
	}
	a.replay = 0
	close(a.settled)
}

// settleReplay waits for the results of the last shipped record, notes which they are, and lets the links begin.
func (a *attempt) settleReplay(ctx context.Context) error {
	blocked := 0
	for a.engine.Handled() < a.replay && blocked < replayBlocked {
		if !pauseFor(ctx, replayPoll) {
			return ctx.Err()
		}
		if blocked++; !a.blocked() {
			blocked = 0
		}
	}
	if blocked == replayBlocked { // nothing drains: to wait on would be for ever
		a.log.Warn("the outbox takes no more results of shipped records; of those that are not made yet, what upstream holds may be sent once more", "position", uint64(a.engine.Handled()))
	}
	for blocked < replayBlocked { // a barrier behind the last one: every task has handed over what it has made
		_, err := a.coordinator.Trigger(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		a.log.Warn("no checkpoint behind the shipped records yet; results wait", "error", err)
		if !pauseFor(ctx, time.Second) {
			return ctx.Err()
		}
	}
	i, err := a.inheritance()
	if err != nil {
		return err
	}
	for _, l := range a.links {
		if l.UID == exec.DeadSink {
			continue
		}
		last, err := a.outbox.LastUpTo(ctx, l.UID, a.replay)
		if errors.Is(err, outbox.ErrNotWhole) { // a limit of the sink let some go; their numbers are gaps now
			a.log.Warn("results of shipped records are not whole; what upstream holds of them may be sent once more", "sink", l.UID, "error", err)
			continue
		}
		if err != nil {
			return err
		}
		i.Sinks[l.UID] = max(i.Sinks[l.UID], last)
	}
	i.Replay = 0
	if err := a.saveInheritance(&i); err != nil {
		return err
	}
	for _, l := range a.links {
		if l.UID != exec.DeadSink {
			l.Queue.Inherit(outbox.Inherited{Generation: i.Generation, Seq: i.Sinks[l.UID]})
		}
	}
	a.log.Info("shipped records are replayed", "position", uint64(a.replay), "results", i.Sinks)
	close(a.settled)
	if !a.held.holds() {
		a.outbox.LetGo()
	}
	return nil
}

// pauseFor waits; false: ctx has ended.
func pauseFor(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
