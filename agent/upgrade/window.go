package upgrade

import (
	"fmt"
	"time"
)

// Window is a stretch of a day, in minutes of local time; From above To goes over midnight. The zero value is the whole day. A day on which the clock is set forward over it has none of it, and
// the next one has.
type Window struct{ From, To int }

// ParseWindow reads "02:00-04:30". "" is the whole day.
func ParseWindow(s string) (Window, error) {
	if s == "" {
		return Window{}, nil
	}
	bad := fmt.Errorf("the window %q is no stretch of a day: write it as 02:00-04:30", s)
	if len(s) != len("02:00-04:30") || s[5] != '-' {
		return Window{}, bad
	}
	from, err := time.Parse("15:04", s[:5])
	if err != nil {
		return Window{}, bad
	}
	to, err := time.Parse("15:04", s[6:])
	if err != nil || from.Equal(to) {
		return Window{}, bad
	}
	return Window{From: minutes(from), To: minutes(to)}, nil
}

func minutes(t time.Time) int { return t.Hour()*60 + t.Minute() }

// Holds tells whether it is open at t, in t's zone. To is no longer within.
func (w Window) Holds(t time.Time) bool {
	at := minutes(t)
	switch {
	case w.From == w.To:
		return true
	case w.From < w.To:
		return at >= w.From && at < w.To
	}
	return at >= w.From || at < w.To
}
