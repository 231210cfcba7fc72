// Package uplinktest is the conformance suite of the delivery protocol: Run checks an endpoint and its far end, Upstream is
// a simulated far end with every fault that a link and a server have, Queue an outbox in memory.
package uplinktest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
)

// Held is one record at the far end.
type Held struct {
	Generation uint64
	Seq, Last  uint64
	Gap        bool
	Payload    string
}

// Planted are faults of an upstream that a test must find.
type Planted struct {
	OpenHighest  bool // Open returns the highest sequence instead of the end of the unbroken run (RULES 17)
	DedupByBatch bool // a batch is known by its bounds, not by its sequences (RULES 16)
	NoFence      bool // lower incarnations may go on
}

// Upstream is a far end that keeps results in memory: durable from the moment they are taken. It takes them in any order,
// as a store of objects does, so that only the sender's use of Open keeps the run whole.
type Upstream struct {
	Planted Planted
	// Reject names a record that is refused for good, "" for none. RejectUnnamed refuses the batch without a name.
	Reject        func(payload string) string
	RejectUnnamed bool

	mu      sync.Mutex
	rand    *rand.Rand // nil: no faults of the link
	inc     uplink.Incarnation
	gen     uint64
	started bool
	records map[uint64][]Held // by sequence: more than one is a duplicate
	chains  map[uint64]uint64
	batches map[string]bool
	delayed []uplink.Batch // copies that arrive late
	Faults  map[string]int // how often each fault of the link came
}

// NewUpstream has a perfect link when rnd is nil.
func NewUpstream(rnd *rand.Rand) *Upstream {
	return &Upstream{rand: rnd, records: map[uint64][]Held{}, chains: map[uint64]uint64{}, batches: map[string]bool{}, Faults: map[string]int{}}
}

// Connect gives an endpoint on the upstream.
func (u *Upstream) Connect() uplink.Endpoint { return &connection{u: u} }

type connection struct {
	u       *Upstream
	durable uint64
}

var errLink = errors.New("link is down")

// chance draws a fault of the link.
func (u *Upstream) chance(name string, percent int) bool {
	if u.rand == nil || u.rand.IntN(100) >= percent {
		return false
	}
	u.Faults[name]++
	return true
}

func (c *connection) Open(_ context.Context, _ uplink.Stream, inc uplink.Incarnation, generation uint64) (uplink.Progress, error) {
	u := c.u
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.chance("open lost", 10) {
		return uplink.Progress{}, errLink
	}
	if err := u.fence(inc, generation); err != nil {
		return uplink.Progress{}, err
	}
	u.inc, u.gen = inc, generation
	if u.chance("open answer lost", 10) {
		return uplink.Progress{}, errLink
	}
	end := u.end()
	return uplink.Progress{Generation: u.gen, Incarnation: u.inc, Seq: end, Chain: u.chains[end]}, nil
}

func (u *Upstream) fence(inc uplink.Incarnation, generation uint64) error {
	if (inc.Less(u.inc) || generation < u.gen) && !u.Planted.NoFence {
		return fmt.Errorf("%w: %s", uplink.ErrFenced, u.inc)
	}
	return nil
}

// end is the end of the unbroken run (or the highest sequence, the planted fault).
func (u *Upstream) end() (end uint64) {
	if u.Planted.OpenHighest {
		for seq := range u.records {
			end = max(end, seq)
		}
		return end
	}
	for len(u.records[end+1]) > 0 {
		end++
	}
	return end
}

func (c *connection) Send(_ context.Context, b *uplink.Batch) (uplink.Answer, error) {
	u := c.u
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.fence(b.Incarnation, b.Generation); err != nil {
		return uplink.Answer{}, err
	}
	u.late()
	switch {
	case u.chance("request lost", 8):
		return uplink.Answer{}, errLink
	case u.chance("request delayed past its timeout", 8):
		u.delay(b)
		return uplink.Answer{}, errLink
	case u.chance("busy", 5):
		return uplink.Answer{}, &uplink.RetryAfter{Wait: 1, Err: errors.New("busy")}
	case u.chance("cut in the middle", 8):
		u.takePart(b)
		if u.rand.IntN(2) == 0 { // and restarts: it asks to be opened again
			return uplink.Answer{}, uplink.ErrHole
		}
		return uplink.Answer{}, errLink
	}
	if end := u.end(); b.Previous > end {
		return uplink.Answer{}, fmt.Errorf("%w: it ends at %d", uplink.ErrHole, end)
	}
	if ans, err := u.refuse(b); err != nil || len(ans.Rejected) > 0 {
		return ans, err
	}
	u.take(b)
	switch {
	case u.chance("answer lost after the commit", 8):
		return uplink.Answer{}, errLink
	case u.chance("copy arrives again later", 8):
		u.delay(b)
	case u.chance("restart after the commit", 4):
		return uplink.Answer{}, uplink.ErrHole
	case u.chance("answered before durable", 8):
		c.durable = u.end()
		return uplink.Answer{}, nil
	}
	c.durable = u.end()
	return uplink.Answer{Durable: c.durable}, nil
}

func (u *Upstream) refuse(b *uplink.Batch) (uplink.Answer, error) {
	if u.Reject == nil {
		return uplink.Answer{}, nil
	}
	var bad []uplink.Rejected
	for i := range b.Results {
		if r := &b.Results[i]; r.Kind == pipeline.ResultData {
			if why := u.Reject(string(r.Payload)); why != "" {
				bad = append(bad, uplink.Rejected{Seq: r.Seq, Reason: why})
			}
		}
	}
	if len(bad) > 0 && u.RejectUnnamed {
		return uplink.Answer{}, fmt.Errorf("%w: no name", uplink.ErrRejected)
	}
	return uplink.Answer{Rejected: bad, Durable: b.Previous}, nil
}

// late lets delayed copies arrive: with the fence, and deduplicated like any other.
func (u *Upstream) late() {
	kept := u.delayed[:0]
	for i := range u.delayed {
		b := &u.delayed[i]
		switch {
		case u.rand.IntN(2) == 0:
			kept = append(kept, *b)
		case u.fence(b.Incarnation, b.Generation) == nil:
			if ans, err := u.refuse(b); err == nil && len(ans.Rejected) == 0 && b.Previous <= u.end() {
				u.take(b)
			}
		}
	}
	u.delayed = kept
}

func (u *Upstream) delay(b *uplink.Batch) {
	c := *b
	c.Results = append([]pipeline.Result(nil), b.Results...)
	u.delayed = append(u.delayed, c)
}

// takePart takes a random part of a batch, not only its head.
func (u *Upstream) takePart(b *uplink.Batch) {
	if ans, err := u.refuse(b); err != nil || len(ans.Rejected) > 0 || b.Previous > u.end() {
		return
	}
	for i := range b.Results {
		if u.rand.IntN(2) == 0 {
			u.takeResult(b, &b.Results[i])
		}
	}
}

func (u *Upstream) take(b *uplink.Batch) {
	key := b.IdempotencyKey()
	if u.Planted.DedupByBatch && u.batches[key] {
		return
	}
	u.batches[key] = true
	for i := range b.Results {
		u.takeResult(b, &b.Results[i])
	}
}

func (u *Upstream) takeResult(b *uplink.Batch, r *pipeline.Result) {
	for seq := r.Seq; seq <= r.Last; seq++ {
		if len(u.records[seq]) > 0 && !u.Planted.DedupByBatch {
			continue
		}
		u.records[seq] = append(u.records[seq], Held{Generation: b.Generation, Seq: seq, Last: seq, Gap: r.Kind == pipeline.ResultGap, Payload: string(r.Payload)})
	}
	u.chains[r.Last] = r.Chain
}

func (c *connection) Confirm(context.Context) (uint64, error) {
	c.u.mu.Lock()
	defer c.u.mu.Unlock()
	if c.u.chance("confirm lost", 10) {
		return 0, errLink
	}
	return c.u.end(), nil
}

func (c *connection) Guarantee() uplink.Guarantee { return uplink.ExactlyOnce }

func (c *connection) Close() error { return nil }

// Records gives what is held, in order; a sequence that was taken twice comes twice.
func (u *Upstream) Records() (all []Held) {
	u.mu.Lock()
	defer u.mu.Unlock()
	highest := uint64(0)
	for seq := range u.records {
		highest = max(highest, seq)
	}
	for seq := uint64(1); seq <= highest; seq++ {
		all = append(all, u.records[seq]...)
	}
	return all
}

// Exact compares what is held with the payloads that were sent, from sequence 1 on; gaps are allowed where gap says so. It
// gives the first difference.
func Exact(held []Held, want []string, gap func(seq uint64) bool) error {
	next := uint64(1)
	for _, h := range held {
		if h.Seq != next {
			return fmt.Errorf("sequence %d where %d comes next", h.Seq, next)
		}
		for seq := h.Seq; seq <= h.Last; seq++ {
			switch {
			case seq > uint64(len(want)):
				return fmt.Errorf("sequence %d was never sent", seq)
			case h.Gap && (gap == nil || !gap(seq)):
				return fmt.Errorf("sequence %d is a gap (%s)", seq, h.Payload)
			case !h.Gap && gap != nil && gap(seq):
				return fmt.Errorf("sequence %d is no gap", seq)
			case !h.Gap && h.Payload != want[seq-1]:
				return fmt.Errorf("sequence %d is %q, want %q", seq, h.Payload, want[seq-1])
			}
		}
		next = h.Last + 1
	}
	if next != uint64(len(want))+1 {
		return fmt.Errorf("it ends at %d, want %d", next-1, len(want))
	}
	return nil
}
