package uplink

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// action is what a sender does next with a batch.
type action uint8

const (
	actionDone    action = iota // durable upstream up to Last
	actionPartial               // durable up to upTo: send the rest
	actionConfirm               // accepted, not yet durable: ask
	actionAgain                 // the same batch again, after a back-off and at least wait
	actionReopen                // Open again
	actionReject                // the named records become dead letters and gaps, the rest is sent again
	actionSplit                 // halves
	actionStop                  // fenced: final
)

func (a action) String() string {
	return [...]string{"done", "partial", "confirm", "again", "reopen", "reject", "split", "stop"}[a]
}

// decision is the outcome of decide.
type decision struct {
	action   action
	upTo     uint64
	wait     time.Duration
	busy     bool // upstream has no time for it now: nothing is wrong with the link
	rejected []Rejected
	err      error
}

// decide says what an answer to a batch means. It is a function of its arguments alone; the sender acts on it. No answer
// makes a batch wait for ever but the temporary ones, and none makes a record vanish without a name.
func decide(b *Batch, ans Answer, err error) decision {
	var retry *RetryAfter
	switch {
	case errors.Is(err, ErrFenced):
		return decision{action: actionStop, err: err}
	case errors.Is(err, ErrHole):
		return decision{action: actionReopen, err: err}
	case errors.Is(err, ErrRejected):
		return refusedWhole(b, err)
	case errors.As(err, &retry):
		return decision{action: actionAgain, wait: retry.Wait, busy: true, err: err}
	case err != nil:
		return decision{action: actionAgain, busy: errors.Is(err, ErrContended), err: err}
	}
	if len(ans.Rejected) > 0 {
		if named := namedIn(b, ans.Rejected); len(named) > 0 {
			return decision{action: actionReject, rejected: named, upTo: ans.Durable}
		}
		return refusedWhole(b, fmt.Errorf("%w: it names no record of the batch", ErrRejected))
	}
	switch {
	case ans.Durable >= b.Last:
		return decision{action: actionDone, upTo: b.Last}
	case ans.Durable == 0:
		return decision{action: actionConfirm}
	case ans.Durable > b.Previous:
		return decision{action: actionPartial, upTo: ans.Durable}
	case ans.Durable < b.Previous:
		return decision{action: actionReopen, err: fmt.Errorf("%w: it holds %d, the batch begins behind %d", ErrHole, ans.Durable, b.Previous)}
	}
	return decision{action: actionAgain, err: errors.New("upstream took nothing of the batch and gave no reason")}
}

// refusedWhole decides on a refusal without names: split until the bad record is alone. A batch of gaps alone cannot be at
// fault, so its refusal counts as temporary.
func refusedWhole(b *Batch, err error) decision {
	data, bad := 0, uint64(0)
	for i := range b.Results {
		if b.Results[i].Kind == pipeline.ResultData {
			data, bad = data+1, b.Results[i].Seq
		}
	}
	switch data {
	case 0:
		return decision{action: actionAgain, err: err}
	case 1:
		return decision{action: actionReject, rejected: []Rejected{{Seq: bad, Reason: err.Error()}}}
	}
	return decision{action: actionSplit, err: err}
}

// namedIn gives the rejections that name a data result of the batch, each once.
func namedIn(b *Batch, rejected []Rejected) (named []Rejected) {
	seen := map[uint64]bool{}
	for _, r := range rejected {
		if i := indexOf(b.Results, r.Seq); i >= 0 && b.Results[i].Kind == pipeline.ResultData && !seen[r.Seq] {
			seen[r.Seq] = true
			named = append(named, r)
		}
	}
	return named
}

// indexOf finds the result that covers seq in a run, -1 when none does.
func indexOf(results []pipeline.Result, seq uint64) int {
	for i := range results {
		if results[i].Seq <= seq && seq <= results[i].Last {
			return i
		}
	}
	return -1
}

// halves cuts a batch in two, each with at least one data result when there are two.
func halves(b *Batch) (left, right Batch) {
	data := 0
	for i := range b.Results {
		if b.Results[i].Kind == pipeline.ResultData {
			data++
		}
	}
	cut, seen := 0, 0
	for seen < (data+1)/2 {
		if b.Results[cut].Kind == pipeline.ResultData {
			seen++
		}
		cut++
	}
	return part(b, b.Results[:cut]), part(b, b.Results[cut:])
}

// part is a batch of a run of b's results.
func part(b *Batch, results []pipeline.Result) Batch {
	p := *b
	p.Results = results
	p.First, p.Last = results[0].Seq, results[len(results)-1].Last
	p.Previous = p.First - 1
	return p
}

// behind gives the part of a batch past seq. A gap that lies across it is shortened.
func behind(b *Batch, seq uint64) Batch {
	i := 0
	for i < len(b.Results) && b.Results[i].Last <= seq {
		i++
	}
	rest := b.Results[i:]
	if rest[0].Seq <= seq {
		rest[0].Seq = seq + 1
	}
	return part(b, rest)
}
