package uplinktest

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
)

// faults drives a Sender over a link that loses requests, loses answers, delivers copies late and restarts the far end.
func (s *suite) faults() {
	seed := rand.Uint64()
	s.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	q := NewQueue(1, 0)
	var want []string
	for n := range 400 {
		want = append(want, row(uint64(n+1)))
	}
	inc := one
	for round := 0; round < 6; round++ {
		q.Add(want[round*60 : (round+1)*60]...)
		s.drive(q, &Lossy{Endpoint: s.far.Connect(s, fmt.Sprint("board", round)), Rand: rnd}, inc, uint64(round+1)*60)
		s.far.Restart(s)
		inc.Minor++
	}
	if err := Exact(s.far.Held(s, Stream()), want[:360], nil); err != nil {
		s.Fatalf("seed %d: %v", seed, err)
	}
}

// drive runs a sender until the queue is confirmed up to seq.
func (s *suite) drive(q *Queue, e uplink.Endpoint, inc uplink.Incarnation, seq uint64) {
	s.Helper()
	defer e.Close()
	if err := Drive(s.Context(), q, e, inc, 1, seq); err != nil {
		s.Fatal(err)
	}
}

// Lossy puts faults of the link before an endpoint.
type Lossy struct {
	uplink.Endpoint
	Rand *rand.Rand
	late []uplink.Batch
}

// Open may lose its question or its answer.
func (l *Lossy) Open(ctx context.Context, s uplink.Stream, inc uplink.Incarnation, generation uint64) (uplink.Progress, error) {
	if l.Rand.IntN(5) == 0 {
		return uplink.Progress{}, errLink
	}
	p, err := l.Endpoint.Open(ctx, s, inc, generation)
	if l.Rand.IntN(5) == 0 {
		return uplink.Progress{}, errLink
	}
	return p, err
}

// Send may lose the batch or the answer, and may bring old batches again.
func (l *Lossy) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	if len(l.late) > 0 && l.Rand.IntN(3) == 0 {
		i := l.Rand.IntN(len(l.late))
		_, _ = l.Endpoint.Send(ctx, &l.late[i]) // its answer reaches nobody
	}
	switch l.Rand.IntN(8) {
	case 0:
		return uplink.Answer{}, errLink
	case 1:
		_, _ = l.Endpoint.Send(ctx, b)
		return uplink.Answer{}, errLink
	case 2:
		c := *b
		c.Results = append([]pipeline.Result(nil), b.Results...)
		l.late = append(l.late, c)
	}
	return l.Endpoint.Send(ctx, b)
}
