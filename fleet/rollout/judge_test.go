package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/strict"
)

const (
	hour    = int64(time.Hour / time.Millisecond)
	began   = int64(1_780_000_000_000)
	silence = 2 * hour
)

var (
	release = strings.Repeat("ab", 32)
	older   = strings.Repeat("cd", 32)
)

// aRollout has waves of a tenth and of all; it is in the first.
func aRollout() *document.Rollout {
	return &document.Rollout{Fleet: "plant", Serial: 7, Channel: "stable", ID: "r1", Release: release, CreatedMs: began, Permille: 100, Policy: document.Policy{Savepoint: "required"},
		Limits: document.Limits{MaxFailedPermille: 100, MinReports: 5, SilenceMs: silence}, Waves: []document.Wave{{Permille: 100, SoakMs: 24 * hour}, {Permille: 1000}}, WaveMs: began}
}

// world has n gateways that are in a tenth, and n that are not.
type world struct {
	*document.Rollout
	Facts
	in, out []string
}

func newWorld(n int) *world {
	w := &world{Rollout: aRollout(), Facts: Facts{Gateways: map[string]Gateway{}, Reports: map[string]Report{}, NowMs: began + hour}}
	for i := 0; len(w.in) < n || len(w.out) < n; i++ {
		name := fmt.Sprintf("gw-%04d", i)
		list := &w.out
		if document.Cohort("r1", name) < 100 {
			list = &w.in
		}
		if len(*list) < n {
			*list = append(*list, name)
			w.Gateways[name] = Gateway{Board: "rpi4", HeardMs: began}
		}
	}
	return w
}

// report lets the next gateways report; those that did already are passed over.
func (w *world) report(n int, state, outcome string) *world {
	for _, name := range w.in {
		if _, did := w.Reports[name]; !did && n > 0 {
			w.Reports[name] = Report{Release: release, State: state, Outcome: outcome, WrittenMs: began}
			n--
		}
	}
	return w
}

func (w *world) after(hours int64) *world { w.NowMs = began + hours*hour; return w }

func (w *world) with(do func(*world)) *world { do(w); return w }

// verdicts are the cases: what is there, what it is judged to be, and a fault that would judge otherwise.
var verdicts = []struct {
	name  string
	world func() *world
	want  string // halt, next, done, stuck, stay
	says  string
	fault planted // finds this one, if it is any
}{
	{"nothing yet", func() *world { return newWorld(10) }, "stay", "runs for another 23h0m0s", planted{noSoak: true, noMinimum: true}},
	{"all are well, the wave soaks", func() *world { return newWorld(10).report(10, "committed", Committed) }, "stay", "at least", planted{noSoak: true}},
	{"all are well and it has soaked", func() *world { return newWorld(10).report(10, "committed", Committed).after(24) }, "next", "wave 1 is over: 10 committed of 10", planted{}},
	{"the store's clock was ahead when the wave began", func() *world { return newWorld(10).report(10, "committed", Committed).after(-10 * 365 * 24) }, "stuck", "it was set back", planted{}},
	{"it was ahead by all that a document can say", func() *world {
		return newWorld(10).report(10, "committed", Committed).with(func(w *world) { w.WaveMs = int64(strict.MsMost) })
	}, "stuck", "it was set back", planted{}},
	{"two clocks of one store", func() *world { return newWorld(10).after(0).with(func(w *world) { w.NowMs -= hour / 6 }) }, "stay", "runs for another", planted{noSoak: true, noMinimum: true}},
	{"enough are well, others wait", func() *world { return newWorld(10).report(5, "committed", Committed).after(24) }, "next", "", planted{}},
	{"too few are well", func() *world { return newWorld(10).report(4, "committed", Committed).after(24) }, "stay", "4 gateways have committed, the next wave needs 5", planted{noMinimum: true}},
	{"one of ten is bad, the limit is a tenth", func() *world {
		return newWorld(10).report(1, "failed", Failed).report(9, "committed", Committed).after(24)
	}, "next", "", planted{}},
	{"two of ten", func() *world { return newWorld(10).report(2, "failed", Failed).report(8, "committed", Committed) }, "halt", "2 of 10 gateways", planted{}},
	{"the first ones that end are bad: no need to wait", func() *world { return newWorld(10).report(1, "rolled back", RolledBack) }, "halt", "1 of 1", planted{}},
	{"a single bad one among those that are asked for at least", func() *world {
		return newWorld(20).with(func(w *world) { w.Limits.MinReports = 10 }).report(1, "rolled back", RolledBack)
	}, "stay", "", planted{noMinimum: true}},
	{"silence", func() *world {
		return newWorld(10).report(2, "switched", "").report(8, "committed", Committed).after(3)
	}, "halt", "2 silent", planted{silenceIgnored: true}},
	{"silence while it drains", func() *world { return newWorld(10).report(2, "draining", "").after(3) }, "halt", "2 silent", planted{silenceIgnored: true}},
	{"no silence: the old program runs", func() *world { return newWorld(10).report(10, "staged", "").after(3) }, "stay", "", planted{}},
	{"no silence yet", func() *world { return newWorld(10).report(2, "switched", "").after(2) }, "stay", "", planted{}},
	{"it says something elsewhere", func() *world {
		return newWorld(10).report(2, "switched", "").after(3).with(func(w *world) {
			for name := range w.Reports {
				w.Gateways[name] = Gateway{Board: "rpi4", HeardMs: w.NowMs - hour}
			}
		})
	}, "stay", "", planted{}},
	{"silence is not asked for", func() *world {
		return newWorld(10).report(2, "switched", "").after(30).with(func(w *world) { w.Limits.SilenceMs = 0 })
	}, "stay", "", planted{}},
	{"gated do not count", func() *world {
		return newWorld(10).report(5, "failed", Gated).report(5, "committed", Committed).after(24)
	}, "next", "", planted{}},
	{"all are gated: nobody has shown anything", func() *world { return newWorld(10).report(10, "failed", Gated).after(24) }, "stuck", "nobody in this wave has tried it (10 gated", planted{gatedIsGood: true}},
	{"bad ones among gated", func() *world { return newWorld(10).report(8, "", Gated).report(2, "failed", Failed).after(24) }, "halt", "2 of 2", planted{}},
	{"expired and halted do not count", func() *world {
		return newWorld(10).report(3, "", Expired).report(2, "", Halted).report(5, "committed", Committed).after(24)
	}, "next", "", planted{}},
	{"few are known", func() *world { return newWorld(2).report(2, "committed", Committed).after(24) }, "next", "", planted{}},
	{"few are known, and one is away", func() *world {
		return newWorld(2).report(1, "committed", Committed).after(24).with(func(w *world) {
			w.Gateways[w.in[1]] = Gateway{HeardMs: began - 48*hour}
		})
	}, "next", "", planted{}},
	{"few are known, and one has not come", func() *world { return newWorld(2).report(1, "committed", Committed).after(24) }, "stay", "the next wave needs 2", planted{noMinimum: true}},
	{"a wave without any gateway", func() *world {
		return newWorld(3).after(24).with(func(w *world) {
			for _, name := range w.in {
				delete(w.Gateways, name)
			}
		})
	}, "next", "0 committed of 0", planted{everybodyIn: true}},
	{"failures of those who are not in", func() *world {
		return newWorld(10).after(24).report(10, "committed", Committed).with(func(w *world) {
			for _, name := range w.out {
				w.Reports[name] = Report{Release: release, Outcome: Failed, WrittenMs: began}
			}
		})
	}, "next", "", planted{everybodyIn: true}},
	{"what was reported of another release", func() *world {
		return newWorld(10).report(10, "committed", Committed).after(24).with(func(w *world) {
			for name, r := range w.Reports {
				r.Release, r.Outcome = older, Failed
				w.Reports[name] = r
			}
		})
	}, "stay", "0 gateways have committed", planted{}},
	{"a gateway that only its report tells of", func() *world {
		return newWorld(10).report(10, "failed", Failed).with(func(w *world) { clear(w.Gateways) })
	}, "halt", "10 of 10", planted{}},
	{"other boards", func() *world {
		return newWorld(10).report(10, "failed", Failed).after(24).with(func(w *world) { w.Audience.Boards = []string{"revpi"} })
	}, "next", "of 0", planted{everybodyIn: true}},
	{"an outcome that only later programs know", func() *world { return newWorld(10).report(3, "", "exploded") }, "halt", "3 failed", planted{}},
	{"the last wave, all have ended", func() *world {
		return newWorld(10).report(10, "committed", Committed).with(func(w *world) { w.Wave, w.Waves = 0, w.Waves[:1] })
	}, "done", "10 committed", planted{}},
	{"the last wave, some are away", func() *world {
		return newWorld(10).report(9, "committed", Committed).with(func(w *world) {
			w.Waves = nil
			w.Gateways[w.in[9]] = Gateway{}
		})
	}, "done", "", planted{}},
	{"the last wave, those that a halt has stopped do not try again", func() *world {
		return newWorld(10).report(7, "committed", Committed).report(1, "", Gated).report(2, "rolled back", Halted).with(func(w *world) { w.Waves = nil })
	}, "done", "7 committed; 3 have not come through (1 gated, 0 expired, 2 halted)", planted{gatedIsGood: true}},
	{"the last wave, one waits", func() *world {
		return newWorld(10).report(9, "committed", Committed).with(func(w *world) { w.Waves = nil })
	}, "stay", "1 wait", planted{}},
	{"the last wave, and nobody is known", func() *world { return newWorld(0).with(func(w *world) { w.Waves = nil }) }, "stay", "the last wave", planted{}},
	{"halted stays halted", func() *world {
		return newWorld(10).report(10, "failed", Failed).with(func(w *world) { w.Halted, w.WhyHalt = true, "too hot" })
	}, "stay", "halted: too hot", planted{}},
}

func (v *Verdict) kind(r *document.Rollout) string {
	switch {
	case v.Halt:
		return "halt"
	case v.Done:
		return "done"
	case v.Next != r.Wave:
		return "next"
	case v.Stuck:
		return "stuck"
	}
	return "stay"
}

func TestVerdicts(t *testing.T) {
	for _, c := range verdicts {
		w := c.world()
		v := Judge(w.Rollout, &w.Facts)
		if v.kind(w.Rollout) != c.want || !strings.Contains(v.Why, c.says) {
			t.Errorf("%s: %s, want %s; says %q, want %q; %+v", c.name, v.kind(w.Rollout), c.want, v.Why, c.says, v.Counts)
		}
		if n := v.Counts; n.Known != n.Waiting+n.Absent+n.UnderWay+n.Ended()+n.Gated+n.Expired+n.Halted {
			t.Errorf("%s: somebody counts twice, or not at all: %+v", c.name, n)
		}
		if c.fault == (planted{}) {
			continue
		}
		if f := judge(w.Rollout, &w.Facts, c.fault); f.kind(w.Rollout) == c.want && strings.Contains(f.Why, c.says) {
			t.Errorf("%s: %+v is not found", c.name, c.fault)
		}
	}
}

func TestNext(t *testing.T) {
	w := newWorld(10).report(10, "committed", Committed).after(24)
	r := w.Rollout
	n := Next(r, Judge(r, &w.Facts), w.NowMs, began+1)
	if n == nil || n.Serial != 8 || n.Wave != 1 || n.Permille != 1000 || n.WaveMs != w.NowMs || n.CreatedMs != began+1 || n.ID != r.ID || r.Wave != 0 {
		t.Fatalf("%+v", n)
	}
	if _, err := n.Encode(); err != nil {
		t.Error(err)
	}
	if again := Next(n, Judge(n, &w.Facts), w.NowMs, began); again != nil {
		t.Errorf("a wave behind the last: %+v", again)
	}
	halted := Halt(n, "why \x1b[31m", 0)
	if b, err := halted.Encode(); err != nil || !halted.Halted || halted.Serial != 9 || halted.CreatedMs != n.CreatedMs {
		t.Errorf("%s: %v", b, err)
	}
	if Next(halted, Judge(halted, &w.Facts), w.NowMs, began) != nil {
		t.Error("what is halted goes on")
	}
	back, err := Resume(halted, began+50, began)
	if err != nil || back.Halted || back.WhyHalt != "" || back.Serial != 10 || back.WaveMs != began+50 {
		t.Errorf("%+v, %v", back, err)
	}
	if _, err := Resume(back, 0, 0); err == nil {
		t.Error("what runs is resumed")
	}
	if _, err := Skip(Halt(r, "x", 0), 0, 0); err == nil {
		t.Error("what is halted goes on")
	}
	if n, err := Skip(r, 5, 0); err != nil || n.Wave != 1 || n.WaveMs != 5 {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := Skip(n, 0, 0); err == nil {
		t.Error("a wave behind the last")
	}
}

func TestWaves(t *testing.T) {
	for text, want := range map[string]string{
		"1%:24h,10%:24h,100%": "1%:24h0m0s,10%:24h0m0s,100%", "0.1%, 2.5%:90m, 100%": "0.1%,2.5%:1h30m0s,100%", "100%": "100%",
		"": "", "1": "", "0%": "", "101%": "", "1%,1%": "", "2%,1%": "", "1.25%": "", "1%:24": "", "1%:-1h": "", "1%:": "", "-1%": "", "1.%": "", ".5%": "", "99999999%": "", "1%,": "", "1.+%": "",
	} {
		waves, err := ParseWaves(text)
		if want == "" {
			if err == nil {
				t.Errorf("%q is taken: %+v", text, waves)
			}
			continue
		}
		if got := FormatWaves(waves); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestPlan(t *testing.T) {
	w := newWorld(200)
	plan := Plan(w.Rollout, w.Gateways)
	if len(plan) != 2 || plan[0].New != 200 || plan[1].New != 200 || plan[1].Total != 400 || plan[0].Soak != 24*time.Hour {
		t.Errorf("%+v", plan)
	}
	w.Audience.Gateways = []string{w.in[0], w.out[0], "unheard-of"}
	if plan = Plan(w.Rollout, w.Gateways); plan[0].New != 1 || plan[1].Total != 2 {
		t.Errorf("%+v", plan)
	}
	w.Waves = nil
	if plan = Plan(w.Rollout, w.Gateways); len(plan) != 1 || plan[0].New != 1 {
		t.Errorf("%+v", plan)
	}
}
