package uplinktest

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/weirstream/weir/pipeline"
)

// Queue is an uplink.Queue in memory: what a test put in, with gaps and bounds that survive a "crash" of the sender.
type Queue struct {
	mu         sync.Mutex
	generation uint64
	start      uint64
	results    []pipeline.Result // sequence start+1 ...
	gaps       map[uint64]string
	cursor     uint64
	confirmed  uint64
	bound      [2]uint64
	added      chan struct{}

	Binds int // calls of Bind that changed something
}

// NewQueue holds nothing yet and begins behind start.
func NewQueue(generation, start uint64) *Queue {
	return &Queue{generation: generation, start: start, cursor: start, confirmed: start, gaps: map[uint64]string{},
		added: make(chan struct{}, 1)}
}

// Add appends data results with the given payloads.
func (q *Queue) Add(payloads ...string) {
	q.mu.Lock()
	for _, p := range payloads {
		chain := uint64(0)
		if n := len(q.results); n > 0 {
			chain = q.results[n-1].Chain
		}
		seq := q.start + uint64(len(q.results)) + 1
		q.results = append(q.results, pipeline.Result{Seq: seq, Last: seq, Kind: pipeline.ResultData, Chain: Chain(chain, p),
			Time: pipeline.NoTime, Payload: []byte(p)})
	}
	q.mu.Unlock()
	select {
	case q.added <- struct{}{}:
	default:
	}
}

// Chain is the chain hash of pipeline/DESIGN.md.
func Chain(before uint64, payload string) uint64 {
	return xxhash.Sum64(append(binary.LittleEndian.AppendUint64(nil, before), payload...))
}

// Next implements uplink.Queue.
func (q *Queue) Next(ctx context.Context, maxResults, maxBytes int) ([]pipeline.Result, error) {
	for {
		if out := q.take(maxResults, maxBytes); len(out) > 0 {
			return out, nil
		}
		select {
		case <-q.added:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (q *Queue) take(maxResults, maxBytes int) (out []pipeline.Result) {
	q.mu.Lock()
	defer q.mu.Unlock()
	end := q.start + uint64(len(q.results))
	if q.bound[1] > q.cursor {
		if end < q.bound[1] {
			return nil
		}
		end, maxResults, maxBytes = q.bound[1], 1<<30, 1<<30
	}
	for size := 0; q.cursor < end && len(out) < maxResults; q.cursor++ {
		r := q.results[q.cursor-q.start]
		if reason, ok := q.gaps[r.Seq]; ok {
			r.Kind, r.Payload = pipeline.ResultGap, []byte(reason)
		}
		if size += len(r.Payload); size > maxBytes && len(out) > 0 {
			break
		}
		out = append(out, r)
	}
	return out
}

// Seek implements uplink.Queue.
func (q *Queue) Seek(generation, seq, _ uint64) (known, lostFirst, lostLast uint64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if generation > q.generation {
		return 0, 0, 0, fmt.Errorf("upstream is in generation %d, the queue in %d", generation, q.generation)
	}
	if seq == 0 || generation < q.generation {
		seq = q.start
	}
	if seq < q.confirmed {
		lostFirst, lostLast = seq+1, q.confirmed
	}
	if seq > q.confirmed {
		known, q.confirmed = seq-q.confirmed, seq
	}
	q.cursor = q.confirmed
	return known, lostFirst, lostLast, nil
}

// Resume implements uplink.Queue.
func (q *Queue) Resume() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cursor = q.confirmed
}

// Bind implements uplink.Queue.
func (q *Queue) Bind(_ context.Context, first, last uint64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bound != [2]uint64{first, last} {
		q.bound = [2]uint64{first, last}
		q.Binds++
	}
	q.confirmed = max(q.confirmed, first-1)
	return nil
}

// Confirm implements uplink.Queue.
func (q *Queue) Confirm(seq, _ uint64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.confirmed = max(q.confirmed, seq)
	return nil
}

// Skip implements uplink.Queue.
func (q *Queue) Skip(_ context.Context, first, last uint64, reason string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for seq := first; seq <= last; seq++ {
		q.gaps[seq] = reason
	}
	return nil
}

// Confirmed is the confirmed mark.
func (q *Queue) Confirmed() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.confirmed
}

// Gaps are the sequences that became gaps, with their reasons.
func (q *Queue) Gaps() map[uint64]string {
	q.mu.Lock()
	defer q.mu.Unlock()
	gaps := map[uint64]string{}
	for k, v := range q.gaps {
		gaps[k] = v
	}
	return gaps
}
