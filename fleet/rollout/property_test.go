package rollout

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/fleet/document"
)

var (
	someStates   = []string{"", "accepted", "fetching", "staged", "draining", "saved", "switched", "probation", "committing", "rollback", "restoring"}
	someOutcomes = []string{"", "", "", Committed, Committed, Committed, RolledBack, Failed, Gated, Expired, Halted, "later"}
)

// draw makes a roll-out and what is known of its gateways.
func draw(t *rapid.T) (*document.Rollout, *Facts) {
	r := aRollout()
	n := rapid.IntRange(1, 4).Draw(t, "waves")
	r.Waves = nil
	for i, share := 0, 0; i < n && share < 1000; i++ {
		share = rapid.IntRange(share+1, 1000).Draw(t, "share")
		r.Waves = append(r.Waves, document.Wave{Permille: share, SoakMs: rapid.Int64Range(0, 50*hour).Draw(t, "soak")})
	}
	r.Wave = rapid.IntRange(0, len(r.Waves)-1).Draw(t, "wave")
	r.Permille = r.Waves[r.Wave].Permille
	r.Limits = document.Limits{MaxFailedPermille: rapid.IntRange(0, 1000).Draw(t, "limit"), MinReports: rapid.IntRange(0, 30).Draw(t, "least"), SilenceMs: rapid.Int64Range(0, 5*hour).Draw(t, "silence")}
	if rapid.IntRange(0, 3).Draw(t, "boards") == 0 {
		r.Audience.Boards = []string{"rpi4"}
	}
	f := &Facts{Gateways: map[string]Gateway{}, Reports: map[string]Report{}, NowMs: began + rapid.Int64Range(0, 100*hour).Draw(t, "now")}
	for i := range rapid.IntRange(0, 60).Draw(t, "gateways") {
		name := fmt.Sprint("g", i)
		if rapid.IntRange(0, 9).Draw(t, "heard") > 0 {
			f.Gateways[name] = Gateway{Board: rapid.SampledFrom([]string{"", "rpi4", "revpi"}).Draw(t, "board"), HeardMs: began - rapid.Int64Range(-100*hour, 100*hour).Draw(t, "at")}
		}
		if rapid.Bool().Draw(t, "reports") {
			f.Reports[name] = Report{Release: rapid.SampledFrom([]string{release, release, release, older}).Draw(t, "of"), State: rapid.SampledFrom(someStates).Draw(t, "state"),
				Outcome: rapid.SampledFrom(someOutcomes).Draw(t, "outcome"), WrittenMs: began + rapid.Int64Range(0, 100*hour).Draw(t, "written")}
		}
	}
	return r, f
}

// lawful gives the first law that a judge breaks, "" if none. They are written without the judge's own words.
func lawful(r *document.Rollout, f *Facts, fault planted) string {
	v := judge(r, f, fault)
	bad, good, tried := 0, 0, 0
	for name, p := range f.Reports {
		if p.Release != r.Release || document.Cohort(r.ID, name) >= r.Permille || !r.Audience.Includes(name, f.Gateways[name].Board) {
			continue
		}
		tried++
		heard := max(p.WrittenMs, f.Gateways[name].HeardMs)
		switch {
		case p.Outcome == Committed:
			good++
		case p.Outcome == RolledBack || p.Outcome == Failed || p.Outcome == "later":
			bad++
		case p.Outcome == "" && r.Limits.SilenceMs > 0 && f.NowMs-heard > r.Limits.SilenceMs && (p.State == "draining" || p.State == "saved" || p.State == "switched" ||
			p.State == "probation" || p.State == "committing" || p.State == "rollback" || p.State == "restoring"):
			bad++
		}
	}
	over := bad > 0 && bad*1000 > r.Limits.MaxFailedPermille*(bad+good)
	n := next(r, v, f.NowMs, began, fault)
	switch {
	case v.Halt && !over:
		return "a halt below the limit"
	case over && bad+good >= r.Limits.MinReports && (n == nil || !n.Halted):
		return "the limit is passed, and nobody halts"
	case n != nil && n.Halted != over:
		return "what is published is not what the limit says"
	case n != nil && !n.Halted && (n.Wave != r.Wave+1 || n.Permille != r.Waves[n.Wave].Permille || n.WaveMs != f.NowMs):
		return "the next wave is not the next one, or does not begin now"
	case n != nil && n.Serial != r.Serial+1:
		return "a serial that is not the next"
	case n != nil && !n.Halted && f.NowMs < r.WaveMs+r.Waves[r.Wave].SoakMs:
		return "a wave that is too short"
	case n != nil && !n.Halted && tried > 0 && good == 0:
		return "a wave that some have entered, and none has come through, is followed by another one"
	case v.Done && v.Next != r.Wave, v.Halt && v.Next != r.Wave, v.Why == "":
		return "two verdicts at once, or none in words"
	case !reflect.DeepEqual(v, judge(r, f, fault)):
		return "asked twice it answers twice"
	}
	return ""
}

// TestLaws holds the judge to what is asked of it, on whatever is known.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, f := draw(t)
		if broken := lawful(r, f, planted{}); broken != "" {
			t.Fatalf("%s: %+v", broken, Judge(r, f))
		}
	})
}

// TestLawsFindFaults plants faults: laws that find nothing are none.
func TestLawsFindFaults(t *testing.T) {
	for _, fault := range []planted{{silenceIgnored: true}, {gatedIsGood: true}, {everybodyIn: true}, {noSoak: true}, {noMinimum: true}, {haltLost: true}, {waveClock: true}} {
		drawn := rapid.Custom(func(t *rapid.T) string {
			r, f := draw(t)
			return lawful(r, f, fault)
		})
		found := ""
		for seed := 0; seed < 20_000 && found == ""; seed++ {
			found = drawn.Example(seed)
		}
		if found == "" {
			t.Errorf("%+v is not found", fault)
		}
	}
}

// TestBadNewsNeverHelp: when one more gateway fails, what was halted is halted, and what stayed does not go on.
func TestBadNewsNeverHelp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, f := draw(t)
		before := Judge(r, f)
		for _, name := range rapid.Permutation(keys(f.Gateways)).Draw(t, "who") {
			if !r.Includes(name, f.Gateways[name].Board) {
				continue
			}
			f.Reports[name] = Report{Release: release, Outcome: Failed, WrittenMs: f.NowMs}
			after := Judge(r, f)
			if before.Halt && !after.Halt || before.Next == r.Wave && after.Next != r.Wave && before.Counts.Eligible() > 0 && before.Counts.Committed > 0 {
				t.Fatalf("%s failed: before %+v, after %+v", name, before, after)
			}
			return
		}
	})
}

// TestEverythingGoesOn: when all gateways commit, each roll-out comes to its end in as many steps as it has waves.
func TestEverythingGoesOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, f := draw(t)
		r.Audience = document.Audience{}
		r.Wave, r.Permille = 0, r.Waves[0].Permille
		clear(f.Reports)
		for range r.Waves {
			for name := range f.Gateways {
				if r.Includes(name, f.Gateways[name].Board) {
					f.Reports[name] = Report{Release: release, State: "committed", Outcome: Committed, WrittenMs: f.NowMs}
				}
			}
			f.NowMs = max(f.NowMs, r.WaveMs+50*hour)
			v := Judge(r, f)
			if n := Next(r, v, f.NowMs, began); n != nil {
				r = n
			} else if r.Wave+1 < len(r.Waves) || !v.Done && v.Counts.Known > v.Counts.Absent {
				t.Fatalf("it stands still in wave %d of %d: %+v", r.Wave+1, len(r.Waves), v)
			}
		}
		if r.Halted || r.Wave != len(r.Waves)-1 {
			t.Fatalf("%+v", r)
		}
	})
}

func keys(m map[string]Gateway) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
