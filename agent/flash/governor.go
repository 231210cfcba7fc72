package flash

import (
	"fmt"
	"math"
	"time"
)

// Setting is what the governor sets: how long a commit of the journal waits, and how far apart checkpoints are at least.
type Setting struct {
	Linger   time.Duration
	Interval time.Duration
}

// Limits are what the config says (Base: without a governor) and how far a Setting may go. Most is never below Base: what is configured holds.
type Limits struct {
	Base, Most Setting
}

// Facts are what is known when a decision is due.
type Facts struct {
	Budget  float64       // bytes in a day
	Spent   float64       // of the day under way
	Left    time.Duration // of the day
	Rate    float64       // bytes per second of the disk, measured wholly under the present setting
	Own     float64       // weir's share of that, 0 to 1
	Journal float64       // the journal's share of weir's, 0 to 1
}

const (
	// spare of the budget stays when a setting is relaxed: halving a setting at most doubles the bytes, so with less than half of it spent
	// what is measured afterwards cannot ask for the stretch again, unless the load has grown by a ninth.
	spare = 0.9
	// partLeast: a setting whose part of the bytes is smaller is left as it is: the delay would be for next to nothing.
	partLeast = 0.1
	// stepMost bounds one stretch.
	stepMost = 16
	// ownLeast: below it stretching spares next to nothing.
	ownLeast = 0.1
	// lingerLeast is what a linger of 0 is stretched from.
	lingerLeast = 4 * time.Millisecond
)

// Verdict is a decision and its reason, a sentence for the operator.
type Verdict struct {
	Setting
	Why string
}

// Bound is s within the limits: at once, when they have become narrower. Pure.
func (l Limits) Bound(s Setting) Setting {
	return Setting{bound(s.Linger, l.Base.Linger, l.Most.Linger), bound(s.Interval, l.Base.Interval, l.Most.Interval)}
}

func bound(v, base, most time.Duration) time.Duration { return max(base, min(v, most)) }

// Decide gives the next setting. It is pure. It stretches what costs most, by as much as is missing, when the day's budget would be exceeded; it relaxes
// by half at a time when the budget would hold even if the bytes doubled, for the rest of the day as for a whole one.
func (l Limits) Decide(now Setting, f Facts) Verdict { return l.decide(now, f, spare) }

func (l Limits) decide(now Setting, f Facts, spare float64) Verdict {
	now = l.Bound(now)
	if f.Budget <= 0 || math.IsNaN(f.Rate) || math.IsInf(f.Rate, 0) {
		return Verdict{l.Base, "there is no budget"}
	}
	day := f.Rate * Day.Seconds()
	rest := f.Rate * f.Left.Seconds()
	if f.Spent+rest > f.Budget {
		return l.stretch(now, f, rest, fmt.Sprintf("%s a day at this rate, %s of %s are spent with %s of the day left", Bytes(day), Bytes(f.Spent), Bytes(f.Budget), span(f.Left)))
	}
	if next := l.relax(now, f); now != l.Base {
		if more := growth(now, next); f.Spent+more*rest <= spare*f.Budget && more*day <= spare*f.Budget {
			return Verdict{next, fmt.Sprintf("%s a day at this rate, the budget is %s", Bytes(day), Bytes(f.Budget))}
		}
	}
	return Verdict{now, ""}
}

// growth is by how much the bytes may rise when one of the settings is relaxed.
func growth(from, to Setting) float64 {
	more := 2.0
	if to.Linger < from.Linger {
		more = max(more, float64(from.Linger)/float64(max(to.Linger, time.Millisecond)))
	}
	if to.Interval < from.Interval {
		more = max(more, float64(from.Interval)/float64(max(to.Interval, time.Millisecond)))
	}
	return more
}

// stretch turns the knob that costs more; the other when the first has no way left, if there is something to be spared with it.
func (l Limits) stretch(now Setting, f Facts, rest float64, why string) Verdict {
	if f.Own < ownLeast {
		return Verdict{now, why + "; others write nearly all of it, so nothing is stretched"}
	}
	factor := int64(stepMost)
	if free := f.Budget - f.Spent; free > 0 && rest/free < stepMost {
		for factor = 2; float64(factor) < rest/free; factor *= 2 { // no more than is missing: what was too much would come back at once
		}
	}
	next := now
	linger := func() bool {
		next.Linger = min(max(now.Linger, lingerLeast)*time.Duration(factor), l.Most.Linger)
		next.Linger = max(next.Linger, now.Linger)
		return next.Linger > now.Linger
	}
	interval := func() bool {
		next.Interval = now.Interval
		if now.Interval > 0 { // 0: no checkpoint comes by time
			next.Interval = max(min(now.Interval*time.Duration(factor), l.Most.Interval), now.Interval)
		}
		return next.Interval > now.Interval
	}
	turned := false
	if f.Journal >= 0.5 {
		turned = linger() || 1-f.Journal >= partLeast && interval()
	} else {
		turned = interval() || f.Journal >= partLeast && linger()
	}
	if !turned {
		return Verdict{now, why + "; all is stretched as far as it may be, or as it helps"}
	}
	return Verdict{next, why}
}

// relax halves the setting that delays more for what it spares: the one that costs less.
func (l Limits) relax(now Setting, f Facts) Setting {
	next := now
	lingerFirst := f.Journal < 0.5
	if lingerFirst && now.Linger > l.Base.Linger || now.Interval <= l.Base.Interval {
		if next.Linger = now.Linger / 2; next.Linger < max(l.Base.Linger, lingerLeast) {
			next.Linger = l.Base.Linger
		}
		return l.Bound(next)
	}
	next.Interval = now.Interval / 2
	return l.Bound(next)
}

// Bytes is a size for people.
func Bytes(n float64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if n >= u.size {
			return fmt.Sprintf("%.3g %s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%.0f B", n)
}

// span is a duration of hours and minutes.
func span(d time.Duration) string {
	if d < time.Hour {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%.0f h", d.Hours())
}
