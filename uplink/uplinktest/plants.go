package uplinktest

import (
	"context"
	"errors"

	"github.com/weirstream/weir/uplink"
)

// appending is a planted fault: a sink without sequences. What it is given it appends behind what it has sent so far, whether the far end
// has that or not.
func appending(e uplink.Endpoint) uplink.Endpoint { return &appends{Endpoint: e} }

type appends struct {
	uplink.Endpoint
	end    uint64
	unsure bool
}

func (a *appends) Open(ctx context.Context, s uplink.Stream, inc uplink.Incarnation, generation uint64) (uplink.Progress, error) {
	p, err := a.Endpoint.Open(ctx, s, inc, generation)
	if err == nil {
		a.end, a.unsure = p.Seq, false
	}
	return p, err
}

func (a *appends) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	c := *MakeBatch(b.Stream, b.Incarnation, b.Generation, a.end+1, a.end+b.Last-b.Previous)
	for i := range c.Results {
		c.Results[i].Payload = b.Results[i].Payload
	}
	_, err := a.Endpoint.Send(ctx, &c)
	if errors.Is(err, uplink.ErrHole) || errors.Is(err, uplink.ErrFenced) {
		return uplink.Answer{}, err
	}
	if err == nil || !a.unsure {
		a.end = c.Last
	}
	if a.unsure = err != nil; a.unsure {
		return uplink.Answer{}, err
	}
	return uplink.Answer{Durable: b.Last}, nil
}

// trusting is a planted fault: a batch that was not answered counts as sent, also where the endpoint says of a lost connection that it must be opened again.
func trusting(e uplink.Endpoint) uplink.Endpoint { return &trusts{e} }

type trusts struct{ uplink.Endpoint }

func (t *trusts) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	ans, err := t.Endpoint.Send(ctx, b)
	if err != nil && !errors.Is(err, uplink.ErrFenced) {
		return uplink.Answer{Durable: b.Last}, nil
	}
	return ans, err
}

// stubborn is a planted fault: a unit that was fenced gives itself a higher incarnation.
func stubborn(e uplink.Endpoint) uplink.Endpoint { return &rises{Endpoint: e} }

type rises struct {
	uplink.Endpoint
	inc uplink.Incarnation
}

func (r *rises) Open(ctx context.Context, s uplink.Stream, inc uplink.Incarnation, generation uint64) (uplink.Progress, error) {
	r.inc = inc
	p, err := r.Endpoint.Open(ctx, s, r.inc, generation)
	if errors.Is(err, uplink.ErrFenced) {
		r.inc.Major += 9
		p, err = r.Endpoint.Open(ctx, s, r.inc, generation)
	}
	p.Incarnation = inc
	return p, err
}

func (r *rises) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	c := *b
	c.Incarnation = r.inc
	ans, err := r.Endpoint.Send(ctx, &c)
	if errors.Is(err, uplink.ErrFenced) {
		return ans, uplink.ErrHole // the sender opens again
	}
	return ans, err
}

// clinging is a planted fault: a sink that stays with a connection that died.
func clinging(e uplink.Endpoint) uplink.Endpoint { return &clings{Endpoint: e} }

type clings struct {
	uplink.Endpoint
	dead int
}

func (c *clings) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	if b.First > 10 && c.dead < 2*strandedFailures { // the line was stranded behind 10
		c.dead++
		return uplink.Answer{}, errLink
	}
	return c.Endpoint.Send(ctx, b)
}
