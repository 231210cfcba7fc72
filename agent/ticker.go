package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/weirstream/weir/agent/clock"
	"github.com/weirstream/weir/pipeline"
)

// tickPollMax and tickPollMin bound how long the ticker sleeps: a timer that is set meanwhile waits at most tickPollMax longer.
const (
	tickPollMax = 200 * time.Millisecond
	tickPollMin = 5 * time.Millisecond
)

// ticker journals a tick when a timer of some pipeline is due and nothing arrives, and a step of the wall clock when there was one: only then does time cost flash.
type ticker struct {
	clock     *clock.Clock
	journal   pipeline.Journal
	deadlines func() int64 // earliest over all pipelines, NoDeadline for none
	stepped   func(string) // logs a sentence on a step of the wall clock
	last      int64        // elapsed of the last tick: a pipeline that has not got to it yet asks again
}

// run journals ticks until ctx ends. A full journal is no error: the sessions deal with it, and time goes on with the next
// record.
func (t *ticker) run(ctx context.Context) error {
	timer := time.NewTimer(tickPollMin)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		due := t.deadlines()
		now := t.clock.Elapsed()
		if tickDue(due, now, t.last) {
			if _, err := t.journal.Append(&pipeline.Entry{Kind: pipeline.EntryTick}); err != nil && !isFull(err) {
				return fmt.Errorf("journal tick: %w", err)
			}
			t.last = now
		}
		if text := t.clock.Due(); text != "" {
			t.stepped(text)
			if _, err := t.journal.Append(&pipeline.Entry{Kind: pipeline.EntryClock, Payload: []byte(text)}); err != nil && !isFull(err) {
				return fmt.Errorf("journal a step of the clock: %w", err)
			}
		}
		timer.Reset(tickWait(due, now))
	}
}

// tickDue: pure.
func tickDue(due, now, last int64) bool { return due <= now && due > last }

// tickWait: pure.
func tickWait(due, now int64) time.Duration {
	if due <= now {
		return tickPollMin
	}
	return min(max(time.Duration(due-now), tickPollMin), tickPollMax)
}
