package flash

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

var limits = Limits{
	Base: Setting{Linger: 5 * time.Millisecond, Interval: 10 * time.Second},
	Most: Setting{Linger: time.Second, Interval: 5 * time.Minute},
}

// load is what a device is given, as a function of the setting: pages per commit and per checkpoint.
type load struct {
	rate, others float64 // messages and bytes per second
	state        float64 // bytes per checkpoint
}

func (l load) journal(s Setting) float64 {
	commits := min(l.rate, 1/max(s.Linger.Seconds(), 1e-4))
	return commits*4096 + l.rate*80
}

func (l load) bytes(s Setting) float64 {
	checkpoints := 0.0
	if l.rate > 0 {
		checkpoints = l.state / s.Interval.Seconds()
	}
	return l.journal(s) + checkpoints + l.others
}

func (l load) facts(s Setting, budget, spent float64, left time.Duration) Facts {
	all := l.bytes(s)
	own := all - l.others
	f := Facts{Budget: budget, Spent: spent, Left: left, Rate: all}
	if all > 0 {
		f.Own = own / all
	}
	if own > 0 {
		f.Journal = l.journal(s) / own
	}
	return f
}

const window = 10 * time.Minute

// TestStretchesAndRelaxes: the first case is the sentence of the documentation.
func TestStretchesAndRelaxes(t *testing.T) {
	busy := load{rate: 100, state: 100e3}
	s := limits.Base
	day := 0.0
	var told []string
	for at := time.Duration(0); at < Day; at += window {
		day += busy.bytes(s) * window.Seconds()
		v := limits.Decide(s, busy.facts(s, 2<<30, day, Day-at-window))
		if v.Setting != s {
			told = append(told, fmt.Sprintf("linger %s interval %s because %s", v.Linger, v.Interval, v.Why))
		}
		s = v.Setting
	}
	t.Log(strings.Join(told, "\n"))
	if day > 2<<30 || len(told) == 0 {
		t.Errorf("%s of a budget of %s, %d changes", Bytes(day), Bytes(2<<30), len(told))
	}
	quiet := load{rate: 0.1}
	for i := 0; s != limits.Base; i++ {
		s = limits.Decide(s, quiet.facts(s, 2<<30, 0, Day)).Setting
		if i > 20 {
			t.Fatalf("it is not relaxed: %+v", s)
		}
	}
}

func TestDecisions(t *testing.T) {
	stretched := Setting{Linger: 400 * time.Millisecond, Interval: time.Minute}
	for _, c := range []struct {
		name string
		now  Setting
		f    Facts
		want Setting
		why  string
	}{
		{"no budget", stretched, Facts{Rate: 1e9, Own: 1}, limits.Base, "no budget"},
		{"within it", limits.Base, Facts{Budget: 1e9, Left: Day, Rate: 1e3, Own: 1, Journal: 1}, limits.Base, ""},
		{"journal first", limits.Base, Facts{Budget: 1e9, Left: Day, Rate: 20e3, Own: 1, Journal: 0.9}, Setting{10 * time.Millisecond, 10 * time.Second}, "1.73 GB a day"},
		{"checkpoints first", limits.Base, Facts{Budget: 1e9, Left: Day, Rate: 20e3, Own: 1, Journal: 0.1}, Setting{5 * time.Millisecond, 20 * time.Second}, "1.73 GB a day"},
		{"nothing is left", limits.Base, Facts{Budget: 1e9, Spent: 2e9, Left: time.Hour, Rate: 20e3, Own: 1, Journal: 1}, Setting{80 * time.Millisecond, 10 * time.Second}, "60 min"},
		{"others write", limits.Base, Facts{Budget: 1e9, Left: Day, Rate: 20e3, Own: 0.05, Journal: 1}, limits.Base, "others write"},
		{"the other is not worth it", Setting{time.Second, 10 * time.Second}, Facts{Budget: 1e9, Left: Day, Rate: 20e3, Own: 1, Journal: 0.95}, Setting{time.Second, 10 * time.Second}, "as it helps"},
		{"the other as well", Setting{time.Second, 10 * time.Second}, Facts{Budget: 1e9, Left: Day, Rate: 20e3, Own: 1, Journal: 0.8}, Setting{time.Second, 20 * time.Second}, "1.73 GB a day"},
		{"all is stretched", limits.Most, Facts{Budget: 1e9, Left: Day, Rate: 20e3, Own: 1, Journal: 1}, limits.Most, "as far as it may"},
		{"nothing is written", stretched, Facts{Budget: 1e9, Left: Day}, Setting{200 * time.Millisecond, time.Minute}, "0 B a day"},
	} {
		v := limits.Decide(c.now, c.f)
		if c.name == "nothing is left" { // no time is left in the message below an hour
			c.why = "1 h"
		}
		if v.Setting != c.want || !strings.Contains(v.Why, c.why) || (c.why == "") != (v.Why == "") {
			t.Errorf("%s: %+v %q; want %+v %q", c.name, v.Setting, v.Why, c.want, c.why)
		}
	}
	narrower := limits
	narrower.Most.Linger = 100 * time.Millisecond // an alarm that leaves at once was added
	if s := narrower.Bound(stretched); s.Linger != 100*time.Millisecond || s.Interval != time.Minute {
		t.Errorf("%+v", s)
	}
	asked := Limits{Base: Setting{2 * time.Second, 10 * time.Minute}, Most: limits.Most} // the config asks for more than the governor may
	if s := asked.Bound(asked.Base); s != asked.Base {
		t.Errorf("%+v", s)
	}
}

// walk runs drawn loads for days and tells of every broken promise.
func walk(seed uint64, decide func(Limits, Setting, Facts) Verdict) (broken []string) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	l := limits
	l.Base.Linger = []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 50 * time.Millisecond, 2 * time.Second}[rnd.IntN(5)]
	l.Base.Interval = []time.Duration{0, time.Second, 10 * time.Second, time.Minute, 10 * time.Minute}[rnd.IntN(5)]
	l.Most.Linger = []time.Duration{0, 100 * time.Millisecond, time.Second, 5 * time.Second}[rnd.IntN(4)]
	budget := 64e6 * float64(uint64(1)<<rnd.IntN(9))
	draw := func() load {
		return load{rate: []float64{0, 0.1, 1, 10, 100, 1000}[rnd.IntN(6)], state: 1e3 * float64(uint64(1)<<rnd.IntN(12)), others: []float64{0, 0, 100, 10e3}[rnd.IntN(4)]}
	}
	now, s := draw(), l.Base
	if s.Interval == 0 {
		now.state = 0
	}
	bytes := func(s Setting) float64 {
		if s.Interval == 0 {
			s.Interval = time.Hour
		}
		return now.bytes(s)
	}
	spent, lastRelax, changed := 0.0, -1, -1
	relaxedAt := Setting{}
	steady := rnd.IntN(2) == 0
	for i := range 7 * int(Day/window) {
		in := i % int(Day/window)
		if in == 0 {
			spent = 0
		}
		if !steady && rnd.IntN(40) == 0 {
			now, changed = draw(), i
			if l.Base.Interval == 0 {
				now.state = 0
			}
		}
		noise := 1 + 0.08*(rnd.Float64()-0.5)
		spent += bytes(s) * noise * window.Seconds()
		f := now.facts(Setting{s.Linger, max(s.Interval, time.Second)}, budget, spent, Day-time.Duration(in+1)*window)
		f.Rate = bytes(s) * noise
		v := decide(l, s, f)
		if v.Linger < l.Base.Linger || v.Linger > max(l.Base.Linger, l.Most.Linger) || v.Interval < l.Base.Interval || v.Interval > max(l.Base.Interval, l.Most.Interval) {
			broken = append(broken, fmt.Sprintf("window %d: %+v is beyond %+v", i, v.Setting, l))
		}
		grew := v.Linger > s.Linger || v.Interval > s.Interval
		if grew && lastRelax > changed && lastRelax >= 0 {
			broken = append(broken, fmt.Sprintf("window %d: stretched again (%+v to %+v) though the load is the same as when it was relaxed in window %d to %+v", i, s, v.Setting, lastRelax, relaxedAt))
		}
		if v.Linger < s.Linger || v.Interval < s.Interval {
			lastRelax, relaxedAt = i, v.Setting
		}
		if f.Spent+f.Rate*f.Left.Seconds() > budget && f.Own >= ownLeast && !grew && (f.Journal >= partLeast && s.Linger < l.Most.Linger || 1-f.Journal >= partLeast && s.Interval > 0 && s.Interval < l.Most.Interval) {
			broken = append(broken, fmt.Sprintf("window %d: %s of %s with %+v, and nothing is stretched", i, Bytes(f.Spent), Bytes(budget), s))
		}
		s = v.Setting
	}
	return broken
}

// TestNoOscillation: over drawn loads nothing passes the limits, a relaxed setting is not stretched again under the same load, and a budget that would be
// passed is never watched without doing something. Each planted fault breaks one of these.
func TestNoOscillation(t *testing.T) {
	const walks = 400
	count := func(decide func(Limits, Setting, Facts) Verdict) (n int, first string) {
		for seed := range uint64(walks) {
			if b := walk(seed, decide); len(b) > 0 {
				n++
				if first == "" {
					first = fmt.Sprintf("seed %d: %s", seed, b[0])
				}
			}
		}
		return n, first
	}
	if n, first := count(Limits.Decide); n > 0 {
		t.Errorf("%d of %d walks: %s", n, walks, first)
	}
	faults := map[string]func(Limits, Setting, Facts) Verdict{
		"relaxed without room": func(l Limits, s Setting, f Facts) Verdict { return l.decide(s, f, 2) },
		"no limit": func(l Limits, s Setting, f Facts) Verdict {
			l.Most = Setting{time.Hour, 24 * time.Hour}
			return l.Decide(s, f)
		},
		"too late": func(l Limits, s Setting, f Facts) Verdict {
			f.Budget *= 1.2
			return l.Decide(s, f)
		},
	}
	for name, fault := range faults {
		n, first := count(fault)
		t.Logf("%s: found in %d of %d walks: %s", name, n, walks, first)
		if n == 0 {
			t.Errorf("planted fault %q is not found", name)
		}
	}
}
