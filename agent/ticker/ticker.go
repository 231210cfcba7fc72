// Package ticker puts time into the journal where no message brings it.
package ticker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/agent/clock"
	"github.com/weirstream/weir/pipeline"
)

// tickPollMax and tickPollMin bound how long the ticker sleeps while batches are worked on: a timer that is set meanwhile waits at most tickPollMax longer.
// tickRest bounds it while nothing is: only a batch sets timers, and wakes the ticker. What else it looks for then are steps of the clock, and a timer that came due while the machine slept.
// A wake-up costs some 0.15 ms of a small core, so five of them a second are what idling costs.
const (
	tickPollMax = 200 * time.Millisecond
	tickPollMin = 5 * time.Millisecond
	tickRest    = 5 * time.Second
)

// Ticker journals a tick when a timer of some pipeline is due and nothing arrives, and a step of the wall clock when there was one: only then does time cost flash.
type Ticker struct {
	Clock     *clock.Clock
	Journal   pipeline.Journal
	Deadlines func() int64 // earliest over all pipelines, NoDeadline for none
	Worked    <-chan struct{}
	Stepped   func(string) // logs a sentence on a step of the wall clock
	last      int64        // elapsed of the last tick: a pipeline that has not got to it yet asks again
}

// Run journals ticks until ctx ends. A full journal is no error: the sessions deal with it, and time goes on with the next
// record.
func (t *Ticker) Run(ctx context.Context) error {
	timer := time.NewTimer(tickPollMin)
	defer timer.Stop()
	var wake <-chan struct{} // t.Worked while the ticker rests
	for {
		rests := false
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		case <-timer.C:
			select {
			case <-t.Worked:
			default:
				rests = true
			}
		}
		due := t.Deadlines()
		now := t.Clock.Elapsed()
		if tickDue(due, now, t.last) {
			if _, err := t.Journal.Append(&pipeline.Entry{Kind: pipeline.EntryTick}); err != nil && !isFull(err) {
				return fmt.Errorf("journal tick: %w", err)
			}
			t.last = now
		}
		if text := t.Clock.Due(); text != "" {
			t.Stepped(text)
			if _, err := t.Journal.Append(&pipeline.Entry{Kind: pipeline.EntryClock, Payload: []byte(text)}); err != nil && !isFull(err) {
				return fmt.Errorf("journal a step of the clock: %w", err)
			}
		}
		wake = nil
		most := tickPollMax
		if rests {
			wake, most = t.Worked, tickRest
		}
		timer.Reset(tickWait(due, now, most))
	}
}

// tickDue: pure.
func tickDue(due, now, last int64) bool { return due <= now && due > last }

// tickWait: pure.
func tickWait(due, now int64, most time.Duration) time.Duration {
	if due <= now {
		return tickPollMin
	}
	return min(max(time.Duration(due-now), tickPollMin), most)
}

func isFull(err error) bool { return errors.Is(err, pipeline.ErrJournalFull) }
