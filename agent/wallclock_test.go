package agent

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/clock"
	"github.com/weirstream/weir/pipeline"
)

// watch is this machine with a wall clock that a test sets.
type watch struct {
	ahead  atomic.Int64 // ns
	synced atomic.Bool
}

func (w *watch) Read() clock.Reading {
	r := clock.This.Read()
	r.Wall += w.ahead.Load()
	return r
}

func (w *watch) Synced() bool { return w.synced.Load() }

// TestBootIn1970AndTheTimeComesLater (rule: no timer fires from a step of the clock): the step is journaled, told and counted; what counts durations goes on.
func TestBootIn1970AndTheTimeComesLater(t *testing.T) {
	b := newBench(t, strings.Replace(absencePipeline, "200ms", "1h", 1))
	w := &watch{}
	b.options.Clocks = w
	behind := -time.Since(time.Unix(3600, 0))
	w.ahead.Store(int64(behind))
	b.start()
	b.await("the pipeline runs", settled)
	b.put(1, 5)
	if s := b.await("rows are in", settled); s.Clock.Trusted || s.Clock.WallMs > 24*3600e3 {
		t.Errorf("clock %+v", s.Clock)
	}
	w.synced.Store(true)
	w.ahead.Store(0)
	s := b.await("the step is told", func(s *api.Status) bool { return s.Clock.Steps == 1 && settled(s) })
	if s.Clock.LastStepMs < (50 * 365 * 24 * time.Hour).Milliseconds() {
		t.Errorf("clock %+v", s.Clock)
	}
	b.await("it is journaled", func(s *api.Status) bool { return b.stepsJournaled() == 1 && settled(s) })
	if at, _ := b.agent.clock.Wall(); time.Since(at).Abs() > time.Minute {
		t.Errorf("certificates are judged by %s", at)
	}
	if got := b.transitions(); got != "" {
		t.Errorf("the step fired a timer of an hour: %s", got)
	}
	b.halt()

	w.ahead.Store(int64(behind)) // off, the battery is empty
	b.start()
	s = b.await("it runs again", func(s *api.Status) bool { return s.Pipelines[0].State == "running" })
	if s.Clock.Trusted || s.Clock.ElapsedSeconds > 3600 {
		t.Errorf("clock %+v", s.Clock)
	}
	if at, late := b.agent.clock.Wall(); !late || at.Year() < 2026 && buildTimeMs() > 0 {
		t.Errorf("certificates are judged by %s, late %v", at, late)
	}
	if got := b.transitions(); got != "" {
		t.Errorf("the step back fired a timer of an hour: %s", got)
	}
	right := s.Clock.FloorMs
	b.put(1, 5) // a frame of the wrong time, behind which the right one stands
	b.await("rows are in", settled)
	b.halt()

	b.start() // off and on again before there was a time service
	if s = b.await("it runs a third time", func(s *api.Status) bool { return s.Pipelines[0].State == "running" }); s.Clock.FloorMs < right || right < time.Now().Add(-time.Hour).UnixMilli() {
		t.Errorf("the floor is %s, was %s", day(s.Clock.FloorMs), day(right))
	}
	b.halt()
}

// stepsJournaled counts the records on steps of the wall clock.
func (b *bench) stepsJournaled() (n int) {
	b.t.Helper()
	err := b.agent.journal.Scan(b.agent.journal.First(), func(e *pipeline.Entry) error {
		if e.Kind == pipeline.EntryClock {
			n++
		}
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}
