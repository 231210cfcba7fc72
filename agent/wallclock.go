package agent

import (
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/clock"
	"github.com/weirstream/weir/pipeline"
)

// openClock makes the clock that goes on from the journal's last stamp, never below the last one that was trusted, and says so when the machine's clock cannot be right.
func (a *Agent) openClock(last, trusted pipeline.Stamp) {
	a.clock = clock.New(clock.Options{Last: last, Trusted: trusted.Wall, Build: buildTimeMs(), TrustAlways: a.options.TrustClock, Machine: a.options.Clocks})
	a.late.set(a.clock)
	if s, floor := a.clock.Stamp(), a.clock.Floor(); s.Wall < floor {
		a.log.Warn("wall clock is behind what is surely past, it is not trusted until it has been set: is there a time service, is the battery empty?",
			"wall", day(s.Wall), "past", day(floor))
	}
}

func (a *Agent) clockStatus() api.ClockStatus {
	stamp, steps := a.clock.Stamp(), a.clock.Steps()
	return api.ClockStatus{ElapsedSeconds: float64(stamp.Elapsed) / 1e9, WallMs: stamp.Wall, Trusted: stamp.Trusted, FloorMs: a.clock.Floor(),
		Steps: steps.Count, LastStepMs: steps.Last.Milliseconds(), SleptSeconds: steps.Slept.Seconds()}
}

// clockStepped logs what the journal is told.
func (a *Agent) clockStepped(text string) {
	s := a.clock.Stamp()
	a.log.Info("clock stepped, timers go by elapsed time and are not moved", "what", text, "wall", day(s.Wall), "trusted", s.Trusted)
}

func day(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
