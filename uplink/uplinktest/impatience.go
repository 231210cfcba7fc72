package uplinktest

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/weirstream/weir/uplink"
)

// Impatience is how long requests may take while a test is after timeouts; else they take what they need. A sender's own timeout would hit
// those as well that the machine alone makes slow. The zero value gives all the time.
type Impatience struct {
	mu      sync.Mutex
	limit   time.Duration
	left    int // so many more requests may fail before all have time again
	begun   int
	pending map[int]func() // ends a request, by its number
}

// Always is as often as it takes.
const Always = math.MaxInt

// Of puts it before an endpoint.
func (i *Impatience) Of(e uplink.Endpoint) uplink.Endpoint { return &hurried{e, i} }

// Set gives requests a limit from now on, those under way as well, until so many have failed.
func (i *Impatience) Set(limit time.Duration, failures int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.limit, i.left = limit, failures
	for _, end := range i.pending {
		if failures > 0 {
			time.AfterFunc(limit, end)
		}
	}
}

// begin gives the context of a request; end is to be told how it ended.
func (i *Impatience) begin(ctx context.Context) (limited context.Context, end func(error)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	stop := cancel
	if i.left > 0 {
		ctx, stop = context.WithTimeout(ctx, i.limit)
	}
	if i.pending == nil {
		i.pending = map[int]func(){}
	}
	i.begun++
	n := i.begun
	i.pending[n] = cancel
	return ctx, func(err error) {
		stop()
		cancel()
		i.mu.Lock()
		defer i.mu.Unlock()
		delete(i.pending, n)
		if err != nil && i.left > 0 {
			i.left--
		}
	}
}

// hurried is an endpoint whose requests have what time impatience leaves them.
type hurried struct {
	uplink.Endpoint
	by *Impatience
}

func (h *hurried) Open(ctx context.Context, s uplink.Stream, inc uplink.Incarnation, generation uint64) (uplink.Progress, error) {
	ctx, end := h.by.begin(ctx)
	p, err := h.Endpoint.Open(ctx, s, inc, generation)
	end(err)
	return p, err
}

func (h *hurried) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	ctx, end := h.by.begin(ctx)
	ans, err := h.Endpoint.Send(ctx, b)
	end(err)
	return ans, err
}

func (h *hurried) Confirm(ctx context.Context) (uint64, error) {
	ctx, end := h.by.begin(ctx)
	seq, err := h.Endpoint.Confirm(ctx)
	end(err)
	return seq, err
}

// Repeatable is what the endpoint says.
func (h *hurried) Repeatable() bool {
	r, ok := h.Endpoint.(uplink.Repeatable)
	return ok && r.Repeatable()
}
