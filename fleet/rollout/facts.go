package rollout

import (
	"time"

	"github.com/weirstream/weir/fleet/document"
)

// How an upgrade of a gateway ended (document.Progress.Outcome).
const (
	Committed  = "committed"
	RolledBack = "rolled back"
	Failed     = "failed"
	Gated      = "gated" // it was never tried: space, board, compatibility …
	Expired    = "expired"
	Halted     = "halted"
)

// Gateway is what is known of one, apart from the roll-out.
type Gateway struct {
	Board   string // "": not known
	HeardMs int64  // its newest word, by the store's clock; 0: never
}

// Report is the newest one of a gateway about the roll-out.
type Report struct {
	Release   string // that it tells of
	State     string // agent/upgrade's
	Outcome   string // "": it has not ended
	WrittenMs int64  // by the store's clock: that of the gateway may be wrong
}

// Facts are all that Judge looks at beside the document. Times are Unix ms by the clock of the store, whatever that is: they are only compared with each other.
type Facts struct {
	Gateways map[string]Gateway // that have ever been heard of
	Reports  map[string]Report  // by gateway; none: it has not reported
	NowMs    int64
}

// AbsentAfter is how long a gateway may say nothing before it is not waited for: each writes its state once a day. It is still in, and upgrades when it comes back.
const AbsentAfter = 48 * time.Hour

// Counts are the gateways that are in, as the roll-out stands. Each is in exactly one of those below Known, Unverified and Stray apart.
type Counts struct {
	Known      int `json:"known"`
	Waiting    int `json:"waiting"` // nothing reported yet
	Absent     int `json:"absent"`  // nothing reported, and not heard of for AbsentAfter
	UnderWay   int `json:"under_way"`
	Committed  int `json:"committed"`
	RolledBack int `json:"rolled_back"`
	Failed     int `json:"failed"`
	Silent     int `json:"silent"` // it had stopped its work for the upgrade, and nothing was heard since for too long
	Gated      int `json:"gated"`
	Expired    int `json:"expired"`
	Halted     int `json:"halted"`
	Stray      int `json:"stray"` // reports of gateways that are not in, which count for nothing
}

// Bad are those that count against the roll-out.
func (c *Counts) Bad() int { return c.RolledBack + c.Failed + c.Silent }

// Ended are those that the limit is a share of.
func (c *Counts) Ended() int { return c.Bad() + c.Committed }

// Eligible are those that can be expected to tell how it went: neither away, nor with a reason not to try.
func (c *Counts) Eligible() int { return c.Known - c.Absent - c.Gated - c.Expired - c.Halted }

// FailedPermille is the rate that the limit is compared with.
func (c *Counts) FailedPermille() int {
	if c.Ended() == 0 {
		return 0
	}
	return c.Bad() * 1000 / c.Ended()
}

// stopped are the states in which a gateway does not do its work: it has drained its pipelines for the upgrade, or another program is to do it. One that says nothing for long in these counts
// as lost. Before them the old program runs, and an upgrade may wait there for days (a window, power, a link).
var stopped = map[string]bool{
	"draining": true, "saved": true, "switched": true, "probation": true, "committing": true, "rollback": true, "restoring": true,
}

// count puts every gateway that is in into one of the counts.
func count(r *document.Rollout, f *Facts, fault planted) (c Counts) {
	in := func(name, board string) bool {
		return fault.everybodyIn || r.Includes(name, board)
	}
	for name, g := range f.Gateways {
		if !in(name, g.Board) {
			if about(r, f.Reports, name) != nil {
				c.Stray++
			}
			continue
		}
		c.Known++
		report := about(r, f.Reports, name)
		if report == nil {
			c.nothing(&g, f.NowMs)
			continue
		}
		c.add(report, g.HeardMs, r.Limits.SilenceMs, f.NowMs, fault)
	}
	for name := range f.Reports {
		if _, known := f.Gateways[name]; known {
			continue
		}
		report := about(r, f.Reports, name)
		switch {
		case report == nil:
		case !in(name, ""): // a board that is not known cannot be among those that are named
			c.Stray++
		default:
			c.Known++
			c.add(report, 0, r.Limits.SilenceMs, f.NowMs, fault)
		}
	}
	return c
}

// about is what a gateway has reported of this release; nil: nothing.
func about(r *document.Rollout, all map[string]Report, name string) *Report {
	report, there := all[name]
	if !there || report.Release != r.Release {
		return nil
	}
	return &report
}

func (c *Counts) nothing(g *Gateway, now int64) {
	if now-g.HeardMs > AbsentAfter.Milliseconds() {
		c.Absent++
	} else {
		c.Waiting++
	}
}

func (c *Counts) add(r *Report, heard, silence, now int64, fault planted) {
	switch r.Outcome {
	case Committed:
		c.Committed++
	case RolledBack:
		c.RolledBack++
	case Gated:
		if fault.gatedIsGood {
			c.Committed++
		} else {
			c.Gated++
		}
	case Expired:
		c.Expired++
	case Halted:
		c.Halted++
	case "":
		if stopped[r.State] && silence > 0 && now-max(r.WrittenMs, heard) > silence && !fault.silenceIgnored {
			c.Silent++
		} else {
			c.UnderWay++
		}
	default: // failed, and what a later program may call it
		c.Failed++
	}
}
