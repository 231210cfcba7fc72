package ticker

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/agent/clock"
	"github.com/weirstream/weir/pipeline"
)

// bubble is the machine of a synctest bubble.
type bubble struct{ began time.Time }

func (b bubble) Read() clock.Reading {
	at := int64(time.Since(b.began))
	return clock.Reading{Monotonic: at, Boot: at, Wall: time.Now().UnixNano()}
}

func (bubble) Synced() bool { return true }

// tickJournal notes when ticks came.
type tickJournal struct {
	pipeline.Journal
	at []time.Time
}

func (j *tickJournal) Append(*pipeline.Entry) (pipeline.Position, error) {
	j.at = append(j.at, time.Now())
	return pipeline.Position(len(j.at)), nil
}

// ticking runs a ticker for a minute of virtual time. After 31.3 s a batch sets a timer that is due at 32 s, and says so, or not. It gives how often the ticker looked, and when the tick came.
func ticking(t *testing.T, told bool) (looks int64, after time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var due, looked atomic.Int64
		due.Store(pipeline.NoDeadline)
		worked := make(chan struct{}, 1)
		j := &tickJournal{}
		tick := &Ticker{Clock: clock.New(clock.Options{Machine: bubble{began}}), Journal: j, Worked: worked, Stepped: func(string) {},
			Deadlines: func() int64 { looked.Add(1); return due.Load() }}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- tick.Run(ctx) }()
		time.Sleep(31300 * time.Millisecond)
		due.Store(int64(32 * time.Second))
		if told {
			worked <- struct{}{}
		}
		time.Sleep(10 * time.Second)
		due.Store(pipeline.NoDeadline)
		time.Sleep(20 * time.Second)
		stop()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if len(j.at) != 1 {
			t.Fatalf("%d ticks, want 1", len(j.at))
		}
		looks, after = looked.Load(), j.at[0].Sub(began)
	})
	return looks, after
}

// TestTickerRests: without work the ticker looks each 5 s, and still ticks when a batch has set a timer; the planted fault is a batch that does not say so. (Once due, it looks each 5 ms: the timer
// here is never worked off.)
func TestTickerRests(t *testing.T) {
	looks, after := ticking(t, true)
	if after != 32*time.Second {
		t.Errorf("ticked after %s, want 32s", after)
	}
	if most := int64(61/5 + 10 + (10*time.Second-700*time.Millisecond)/tickPollMin); looks > most {
		t.Errorf("%d looks in a minute, want at most %d", looks, most)
	}
	if _, after := ticking(t, false); after == 32*time.Second {
		t.Error("a timer of which nobody told was found in time: the ticker does not rest")
	}
}

func TestTickOnlyWhenDueAndOnce(t *testing.T) {
	for _, c := range []struct {
		due, now, last int64
		want           bool
	}{
		{100, 99, 0, false},
		{100, 100, 0, true},
		{100, 150, 120, false}, // a pipeline that has not got to the last tick asks again
		{pipeline.NoDeadline, math.MaxInt64 - 1, 0, false},
	} {
		if got := tickDue(c.due, c.now, c.last); got != c.want {
			t.Errorf("due %d now %d last %d: %v", c.due, c.now, c.last, got)
		}
	}
	for _, c := range []struct {
		due        int64
		most, want time.Duration
	}{
		{pipeline.NoDeadline, tickPollMax, tickPollMax},
		{pipeline.NoDeadline, tickRest, tickRest},
		{int64(time.Second) + 100, tickRest, time.Second},
		{50, tickRest, tickPollMin}, // overdue
	} {
		if w := tickWait(c.due, 100, c.most); w != c.want {
			t.Errorf("due %d, at most %s: %s, want %s", c.due, c.most, w, c.want)
		}
	}
}
