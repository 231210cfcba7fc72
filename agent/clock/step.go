package clock

import (
	"fmt"
	"time"
)

// stepMin is the least difference between wall and monotonic clock, from one look to the next, that counts as a step: slewing stays below it.
const stepMin = int64(time.Second)

// sayEvery bounds how often a step is journaled: a clock that flaps must not wear the flash.
const sayEvery = int64(time.Minute)

// step is what the clocks did between two looks, in ns: Wall by which the wall clock was set, Slept for how long the machine slept.
type step struct{ wall, slept int64 }

// stepBetween is pure. The wall clock goes on while a machine sleeps, so sleep is no step of it. A wall clock that is slewed gains or loses up to a thousandth.
func stepBetween(before, now Reading) step {
	awake := now.Monotonic - before.Monotonic
	s := step{slept: now.Boot - before.Boot - awake}
	if s.slept < stepMin {
		s.slept = 0
	}
	s.wall = now.Wall - before.Wall - awake - s.slept
	if least := stepMin + awake/1000; -least < s.wall && s.wall < least {
		s.wall = 0
	}
	return s
}

// Steps counts what the wall clock did beside running.
type Steps struct {
	Count  uint64        // steps of the wall clock
	Last   time.Duration // the last one: forwards is positive
	LastAt int64         // elapsed ns then
	Sleeps uint64        // times that the machine slept
	Slept  time.Duration // in all

	untold, sleeps int           // since the last sentence
	sum, slept     time.Duration // of those
	saidAt         int64         // elapsed ns of the last sentence
	said           bool
}

// note counts.
func (s *Steps) note(d step, elapsed int64) {
	if d.wall != 0 {
		s.Count, s.Last, s.LastAt = s.Count+1, time.Duration(d.wall), elapsed
		s.untold, s.sum = s.untold+1, s.sum+time.Duration(d.wall)
	}
	if d.slept != 0 {
		s.Sleeps, s.Slept = s.Sleeps+1, s.Slept+time.Duration(d.slept)
		s.sleeps, s.slept = s.sleeps+1, s.slept+time.Duration(d.slept)
	}
}

// due is the sentence of what was not told yet, at most one a minute.
func (s *Steps) due(elapsed int64) string {
	if s.untold == 0 && s.sleeps == 0 || s.said && elapsed-s.saidAt < sayEvery {
		return ""
	}
	var text string
	switch {
	case s.untold == 1:
		text = fmt.Sprintf("the wall clock was set %s", direction(s.sum))
	case s.untold > 1:
		text = fmt.Sprintf("the wall clock was set %d times, %s in all", s.untold, direction(s.sum))
	}
	if s.sleeps > 0 {
		if text != "" {
			text += "; "
		}
		text += fmt.Sprintf("the machine slept for %s", s.slept.Round(time.Millisecond))
	}
	s.untold, s.sleeps, s.sum, s.slept, s.said, s.saidAt = 0, 0, 0, 0, true, elapsed
	return text
}

func direction(by time.Duration) string {
	if by < 0 {
		return (-by).Round(time.Millisecond).String() + " back"
	}
	return by.Round(time.Millisecond).String() + " forward"
}
