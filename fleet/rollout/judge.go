package rollout

import (
	"fmt"
	"math"
	"time"

	"github.com/weirstream/weir/fleet/document"
)

// Verdict is what becomes of the roll-out.
type Verdict struct {
	Counts Counts `json:"counts"`
	Halt   bool   `json:"halt"`  // stop it: Why
	Next   int    `json:"next"`  // index of the wave to go on with; the one that runs: stay
	Done   bool   `json:"done"`  // the last wave, and nobody who is there is left
	Stuck  bool   `json:"stuck"` // time alone will not bring it on: somebody has to look
	Why    string `json:"why"`   // in words, also when it stays
}

// Judge decides. What it says depends on nothing but r and f.
func Judge(r *document.Rollout, f *Facts) Verdict { return judge(r, f, planted{}) }

func judge(r *document.Rollout, f *Facts, fault planted) Verdict {
	c := count(r, f, fault)
	v := Verdict{Counts: c, Next: r.Wave}
	last := r.Wave+1 >= len(r.Waves)
	enough := min(max(1, r.Limits.MinReports), c.Eligible()) // without anybody who came through nothing was shown
	switch soak := soaks(r, f.NowMs); {
	case r.Halted:
		v.Why = "halted"
		if r.WhyHalt != "" {
			v.Why += ": " + r.WhyHalt
		}
	case tooBad(r, &c, fault):
		v.Halt = true
		v.Why = fmt.Sprintf("%d of %d gateways that ended or fell silent have failed (%d rolled back, %d failed, %d silent): %d of a thousand, the limit is %d",
			c.Bad(), c.Ended(), c.RolledBack, c.Failed, c.Silent, c.FailedPermille(), r.Limits.MaxFailedPermille)
	case last && c.Known > c.Absent && c.Waiting+c.UnderWay == 0:
		v.Done, v.Why = true, fmt.Sprintf("all who are there have ended: %d committed", c.Committed)
		if untried := c.Gated + c.Expired + c.Halted; untried > 0 {
			v.Why += fmt.Sprintf("; %d have not come through (%d gated, %d expired, %d halted) and do not try again in this roll-out: another --id has them try", untried, c.Gated, c.Expired, c.Halted)
		}
	case last:
		v.Why = fmt.Sprintf("the last wave: %d committed, %d wait, %d are under way", c.Committed, c.Waiting, c.UnderWay)
	case soak > soakMost(r) && !fault.noSoak: // by years, where a clock was wrong: nothing else would ever say so
		v.Stuck = true
		v.Why = fmt.Sprintf("the wave began at %s by the store's clock, which says %s now: it was set back; see weir fleet resume --next-wave, or halt and resume to have the wave begin anew",
			time.UnixMilli(r.WaveMs).UTC().Format(time.RFC3339), time.UnixMilli(f.NowMs).UTC().Format(time.RFC3339))
	case soak > 0 && !fault.noSoak:
		v.Why = fmt.Sprintf("the wave runs for another %s at least", (soak + time.Second - 1).Truncate(time.Second))
	case c.Committed < enough && !fault.noMinimum:
		v.Stuck = c.Waiting+c.UnderWay == 0
		v.Why = fmt.Sprintf("%d gateways have committed, the next wave needs %d; %d wait, %d are under way", c.Committed, enough, c.Waiting, c.UnderWay)
	case c.Committed == 0 && c.Eligible() == 0 && c.Gated+c.Expired+c.Halted > 0:
		v.Stuck = true
		v.Why = fmt.Sprintf("nobody in this wave has tried it (%d gated, %d expired, %d halted): the next wave would be the first to", c.Gated, c.Expired, c.Halted)
	default:
		v.Next = r.Wave + 1
		v.Why = fmt.Sprintf("wave %d is over: %d committed of %d that are known", r.Wave+1, c.Committed, c.Known)
	}
	return v
}

// tooBad asks for the limit. Before as many have ended as are asked for at least, those that are missing count as good: what has gone wrong so far is too much whatever they will do. So a bad
// release is halted as early as can be, and one bad device among few is none.
func tooBad(r *document.Rollout, c *Counts, fault planted) bool {
	of := max(1, c.Ended())
	if !fault.noMinimum {
		of = max(of, min(r.Limits.MinReports, c.Known-c.Gated-c.Expired-c.Halted))
	}
	return c.Bad()*1000 > r.Limits.MaxFailedPermille*of
}

// soaks is how long the wave runs at least from now on.
func soaks(r *document.Rollout, now int64) time.Duration {
	left := min(r.WaveMs+soakOf(r)-now, math.MaxInt64/int64(time.Millisecond))
	return max(0, time.Duration(left)*time.Millisecond)
}

// soakMost is what can be left of a wave's time: all of it, and what clocks of one store differ by.
func soakMost(r *document.Rollout) time.Duration {
	return time.Duration(soakOf(r))*time.Millisecond + clocksDiffer
}

const clocksDiffer = 15 * time.Minute

func soakOf(r *document.Rollout) int64 {
	if r.Wave >= len(r.Waves) {
		return 0
	}
	return r.Waves[r.Wave].SoakMs
}
