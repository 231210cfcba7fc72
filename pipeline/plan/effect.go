package plan

import "github.com/weirstream/weir/pipeline/expr"

// What is here finds combinations of settings that work and mean less than they seem to. What can mean nothing at all is refused where it is compiled.

// warnIdle tells of steps whose settings drop what nobody expects, or change nothing.
func (c *compiler) warnIdle() {
	for _, b := range c.steps {
		warn := func(at Pos, allowed, found string) {
			c.warnings.Add(at, "", allowed, "%s: %s", stepName(b.spec), found)
		}
		s := b.spec
		switch b.kind {
		case KindWindow:
			warnWindow(s, warn)
		case KindJoin:
			c.warnJoin(s, warn)
		case KindSample:
			if s.Sample.Every == 1 {
				warn(s.Sample.Pos, "every: 10 passes a tenth", "a sample of every row passes all of them")
			}
		case KindThrottle:
			if ttl := c.ttl(s); ttl > 0 && ttl < s.Throttle.IntervalNs {
				warn(s.Throttle.Pos, "a ttl of at least the interval", "its ttl is below the interval: a key that is forgotten passes again")
			}
		}
		warnConstant(b, warn)
	}
}

type warning func(at Pos, allowed, found string)

func warnWindow(s *StepSpec, warn warning) {
	w := s.Window
	switch {
	case w.Kind == WindowHopping && w.SlideMs > w.SizeMs:
		warn(w.SlidePos, "a slide of at most the size leaves no gaps", "the slide is above the size: rows between two windows are in none, they are dropped and counted")
	case w.Kind == WindowCount && w.SlideRows > w.Rows:
		warn(w.SlidePos, "a slide of at most count leaves no gaps", "the slide is above the size: rows between two windows are in none")
	}
	if ttl := ownTTL(s); w.byTime() && ttl > 0 && ttl <= w.SizeMs*1e6 {
		long := "the window's size"
		if w.Kind == WindowSession {
			long = "the gap"
		}
		warn(w.Pos, "a ttl above "+long+", or none: windows go when they have fired", "its ttl is not above "+long+": where rows come as they happen, what is forgotten never comes out")
	}
}

func (c *compiler) warnJoin(s *StepSpec, warn warning) {
	switch j := s.Join; {
	case j.Window != nil && j.Window.SlideMs > j.Window.SizeMs:
		warn(j.Window.Pos, "a slide of at most the size leaves no gaps", "the slide is above the size: rows between two windows are in none")
	case j.Within != nil:
		if ttl := ownTTL(s); ttl > 0 && ttl < max(j.Within.BeforeMs, j.Within.AfterMs)*1e6 {
			warn(j.Within.Pos, "a ttl above the time, or none: rows go when no partner can come", "its ttl is below the time in which partners come")
		}
	}
}

// warnConstant tells of a condition or a value that asks for nothing of the row.
func warnConstant(b *built, warn warning) {
	s := b.spec
	switch b.kind {
	case KindFilter:
		if b.programs[0].Constant() {
			warn(s.Filter.Pos, "a condition on fields, such as temp > 8", "its condition is the same for every row")
		}
	case KindSplit:
		for i, p := range b.programs {
			if p.Constant() {
				warn(s.Split.Ports[i].Expr.Pos, "a condition on fields; rows for which none is true go to rest", "the condition of "+s.Split.Ports[i].Name.Value+" is the same for every row")
			}
		}
	case KindAlarm:
		if b.programs[1].Constant() {
			warn(s.Alarm.Raise.Pos, "a condition on fields, such as temp > 8", "its condition raise is the same for every row")
		}
	case KindChanged, KindDeadband:
		if b.programs[0].Constant() {
			warn(s.Pos, "a value of fields, such as temp", "its value is the same for every row")
		}
	}
}

// repeated finds the first of some conditions that one before it already is; -1: none.
func repeated(conditions []*expr.Program) int {
	for i, p := range conditions {
		for _, before := range conditions[:i] {
			if p.String() == before.String() {
				return i
			}
		}
	}
	return -1
}

// neverLate tells why no row of a step is ever late; "" when one may be.
func neverLate(s *StepSpec) string {
	switch {
	case s.Window == nil:
		return ""
	case !s.Window.byTime():
		return "it goes by the order of arrival"
	case s.Window.Processing:
		return "with time: processing the time of a row is that of its arrival"
	}
	return ""
}
