package join

import (
	"fmt"
	"slices"
)

// Windows are those of a window join: fixed ones [OffsetMs + k*SlideMs, OffsetMs + k*SlideMs + SizeMs), k any integer, of event time; with
// SlideMs == SizeMs they are tumbling. Or, with GapMs, sessions: rows of a key, of both inputs, that lie less than GapMs apart, and with
// Touching those GapMs apart as well; a session ends GapMs behind its last row.
type Windows struct {
	SizeMs, SlideMs, OffsetMs int64
	GapMs                     int64
	Touching                  bool
}

// windowsMax bounds in how many windows a row can be: each that is over gets it as late.
const windowsMax = 100_000

func (w Windows) validate() error {
	switch {
	case w.GapMs < 0 || w.GapMs > spanMax:
		return fmt.Errorf("%w: session gap is %d ms, want 1 to %d", ErrConfig, w.GapMs, int64(spanMax))
	case w.GapMs > 0 && (w.SizeMs != 0 || w.SlideMs != 0 || w.OffsetMs != 0):
		return fmt.Errorf("%w: a session has no size, slide or offset", ErrConfig)
	case w.GapMs > 0:
		return nil
	case w.SizeMs <= 0 || w.SizeMs > spanMax || w.SlideMs <= 0 || w.SlideMs > spanMax:
		return fmt.Errorf("%w: window size is %d ms, slide %d, want 1 to %d", ErrConfig, w.SizeMs, w.SlideMs, int64(spanMax))
	case w.SizeMs/w.SlideMs > windowsMax:
		return fmt.Errorf("%w: a row would be in %d windows of %d ms every %d ms, want at most %d", ErrConfig, w.SizeMs/w.SlideMs, w.SizeMs, w.SlideMs, windowsMax)
	case w.OffsetMs <= -w.SlideMs || w.OffsetMs >= w.SlideMs:
		return fmt.Errorf("%w: offset is %d ms, want less than the slide of %d ms", ErrConfig, w.OffsetMs, w.SlideMs)
	}
	return nil
}

// overlap tells whether a row may be in several windows.
func (w Windows) overlap() bool { return w.GapMs == 0 && w.SlideMs < w.SizeMs }

// first is the start of the first window that may hold time t: the earliest start above t - SizeMs. It lies behind t when t is between
// two windows.
func (w Windows) first(t int64) int64 {
	past := (t - w.SizeMs - w.OffsetMs) % w.SlideMs
	if past < 0 {
		past += w.SlideMs
	}
	return t - w.SizeMs - past + w.SlideMs
}

// near tells whether two instants, a before b, are in one session.
func (w Windows) near(a, b int64) bool { return b-a < w.GapMs || w.Touching && b-a == w.GapMs }

// touches tells whether a row of time t joins a session that is there.
func (w Windows) touches(sessions []span, t int64) bool {
	i := w.at(sessions, t)
	return i < len(sessions) && w.near(t, sessions[i].first)
}

// at is the first session that does not end too far before t.
func (w Windows) at(sessions []span, t int64) int {
	i, _ := slices.BinarySearchFunc(sessions, t, func(s span, t int64) int {
		if s.last < t && !w.near(s.last, t) {
			return -1
		}
		return 1
	})
	return i
}

// join adds a row to the sessions: it may lengthen one, unite two, or begin one.
func (w Windows) join(sessions []span, row span) []span {
	i := w.at(sessions, row.first)
	n := i
	for ; n < len(sessions) && w.near(row.last, sessions[n].first); n++ {
		row.first, row.last = min(row.first, sessions[n].first), max(row.last, sessions[n].last)
	}
	return slices.Replace(sessions, i, n, row)
}

// sessions are those of the rows of both inputs.
func (w Windows) sessions(rows [2][]held) (all []span) {
	l, r := rows[Left], rows[Right]
	for len(l) > 0 || len(r) > 0 {
		from := &l
		if len(l) == 0 || len(r) > 0 && r[0].time < l[0].time {
			from = &r
		}
		t := (*from)[0].time
		*from = (*from)[1:]
		if n := len(all) - 1; n >= 0 && w.near(all[n].last, t) {
			all[n].last = t
			continue
		}
		all = append(all, span{t, t})
	}
	return all
}
