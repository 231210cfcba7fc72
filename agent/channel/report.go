package channel

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/pace"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/fleet/strict"
)

// reporter is what was reported.
type reporter struct {
	state    string // the last one, without what always changes
	progress string
	ended    string // how the newest upgrade ended, if it has
	stateAt  time.Time
	due      time.Time // not before
	fails    int
	failed   time.Time
}

// tell reports what has changed, and sends results. What fails is tried again, ever more rarely.
func (c *Channel) tell(ctx context.Context) {
	r := &c.report
	if r.fails > 0 && time.Since(r.failed) < c.Pace.Look(false, r.fails, 0.5) {
		return
	}
	err := c.sendResults(ctx)
	if err == nil {
		err = c.reportState(ctx)
	}
	if err == nil {
		r.fails = 0
		return
	}
	if ctx.Err() != nil {
		return
	}
	if r.fails++; r.fails == 1 {
		c.log.Warn("report to the fleet was not written; it is tried again", "error", err)
	}
	r.failed = time.Now()
}

// reportState writes what this gateway is when that has changed, at most once a minute, or when a day is over.
func (c *Channel) reportState(ctx context.Context) error {
	r, now := &c.report, time.Now()
	s := c.Acts.State()
	c.complete(&s)
	progress := c.progress(&s)
	if now.Before(r.due) && (progress == nil || progress.Outcome == "" || progress.Rollout+progress.Release+progress.Outcome == r.ended) { // how an upgrade ended is not kept waiting
		return nil
	}
	key, err := essence(&s)
	if err != nil {
		return err
	}
	if key != r.state || now.Sub(r.stateAt) >= reportEvery {
		if err := c.put(ctx, depot.State(c.Gateway), signed.TypeState, &s); err != nil {
			return err
		}
		r.state, r.stateAt, r.due = key, now, now.Add(pace.Jitter(reportApart*6/5, c.random()))
	}
	if progress != nil {
		r.ended = progress.Rollout + progress.Release + progress.Outcome
	}
	if progress == nil || progress.Rollout == "" {
		return nil
	}
	if key, err = essence(progress); err != nil || key == r.progress {
		return err
	}
	if err := c.put(ctx, depot.Progress(progress.Rollout, c.Gateway), signed.TypeProgress, progress); err != nil {
		return err
	}
	r.progress, r.due = key, now.Add(pace.Jitter(reportApart*6/5, c.random()))
	return nil
}

func (c *Channel) put(ctx context.Context, name, typ string, d interface{ Encode() ([]byte, error) }) error {
	body, err := c.seal(typ, d)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	if err := c.Depot.Bucket.Put(ctx, name, body); err != nil {
		return fmt.Errorf("report %s: %w", name, err)
	}
	c.mu.Lock()
	c.count.reports++
	c.mu.Unlock()
	return nil
}

// complete adds what the channel knows.
func (c *Channel) complete(s *document.State) {
	s.Gateway, s.Channel, s.Board, s.Root = c.Gateway, c.Channel, c.Board, c.trust.Version()
	s.AtMs, s.Trusted = c.Clock.Now()
	s.Serials = map[string]uint64{}
	for scope, f := range c.ledger.Scopes {
		if f.Since >= c.trust.Since(signed.RoleDeploy) && strict.Name(scope) == nil { // what was seen of keys that were all replaced counts no more; a very long name of a gateway makes a scope that is none
			s.Serials[scope] = f.Serial
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for reason, n := range c.count.refused {
		if s.Refused == nil {
			s.Refused = map[string]uint64{}
		}
		s.Refused[reason] = n
	}
}

// progress is how this gateway fares in the roll-out that it was asked for last, or in the upgrade of a command.
func (c *Channel) progress(s *document.State) *document.Progress {
	if p := s.Upgrade; p != nil {
		p.Gateway, p.AtMs = c.Gateway, s.AtMs
	}
	h := c.ledger.Rollout
	if h == nil || h.Outcome == "" { // the upgrader tells
		return s.Upgrade
	}
	return &document.Progress{Gateway: c.Gateway, Rollout: h.ID, Release: h.Release, Outcome: h.Outcome, Why: h.Why, From: s.Version, To: s.Version, AtMs: s.AtMs}
}

// essence is what a report says, without what always changes: the time, and the numbers in sentences, such as ages.
func essence(d any) (string, error) {
	switch d := d.(type) {
	case *document.State:
		c := *d
		c.AtMs, c.Problems = 0, nil
		for _, p := range d.Problems {
			c.Problems = append(c.Problems, numberless(p))
		}
		if d.Upgrade != nil {
			u := *d.Upgrade
			u.AtMs = 0
			c.Upgrade = &u
		}
		c.Refused = nil // a flood of bad documents is no reason to write; the reasons are
		b, err := strict.Encode(&c)
		for _, k := range slices.Sorted(maps.Keys(d.Refused)) {
			b = append(b, " "+k...)
		}
		return string(b), err
	case *document.Progress:
		c := *d
		c.AtMs = 0
		b, err := strict.Encode(&c)
		return string(b), err
	}
	panic(fmt.Sprintf("BUG: no essence of %T", d))
}

func numberless(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r == '.' {
			return -1
		}
		return r
	}, text)
}
