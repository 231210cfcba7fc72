package central

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"
)

// Pipeline is one pipeline of an Uploader. The pipeline's own goroutine asks Wanted and brings what is to be uploaded by Begin; the uploader's takes it
// from there. mu guards the fields below it.
type Pipeline struct {
	u     *Uploader
	id    UUID
	name  string
	spool Spool

	mu       sync.Mutex
	rec      *record
	at       progress
	todo     []stored // of the upload under way, in the order of their puts
	cutting  bool
	fresh    int       // objects of todo from there on were put by nobody
	asOf     time.Time // the newest instant whose state is in the store; zero: not known to this process
	draftAt  time.Time // the same of the draft
	headAt   string    // version of the head, for the compare-and-swap
	headSeen Order
	headSHA  SHA
	err      string
	sent     uint64
	done     uint64

	tries tries // of Run
}

// stored is an object that an upload puts.
type stored struct {
	kind  Kind
	sha   SHA
	bytes uint64
}

// Want says what the next upload has to hold.
type Want struct {
	// Since is the checkpoint that the store holds; 0: all of the state is wanted.
	Since uint64
	// Why says why all of it is wanted, when it might not be.
	Why string
	// Sinks are how far results are in the store, by UID.
	Sinks map[string]Sink
}

// Wanted says whether an upload is wanted: none is under way, and the device is not fenced. plan is the sum of the plan (see About.Sum), and the
// incarnation that of the agent: the chain of another plan or of another major is not gone on with.
func (p *Pipeline) Wanted(plan SHA, major uint32) (w Want, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rec.Draft != nil || p.cutting || p.u.isFenced() {
		return w, false
	}
	last := p.rec.last()
	switch {
	case last == nil:
		w.Why = p.rec.WantBase
	case p.rec.WantBase != "":
		w.Why = p.rec.WantBase
	case p.rec.PlanSum != plan:
		w.Why = "the plan has changed"
	case last.Major != major:
		w.Why = "the incarnation has changed"
	case rebase(last, p.u.config.RebaseRatio):
		w.Why = "the deltas outgrew the base"
	default:
		w.Since = last.Checkpoint
	}
	if w.Since > 0 {
		w.Sinks = map[string]Sink{}
		for _, s := range last.Sinks {
			w.Sinks[s.UID] = s
		}
	}
	return w, true
}

// rebase is the decision for a new base.
func rebase(last *Manifest, ratio float64) bool {
	frames := last.Indexed + uint64(len(last.Frames))
	return frames >= framesMax || float64(last.DeltaBytes) >= ratio*float64(last.BaseBytes) && last.DeltaBytes > 0
}

// Keep is the oldest checkpoint whose changes are needed: what the store holds, or what is on its way there. 0: none.
func (p *Pipeline) Keep() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.rec.Draft != nil:
		return p.rec.Draft.M.Checkpoint
	case p.rec.last() != nil && p.rec.WantBase == "":
		return p.rec.last().Checkpoint
	}
	return 0
}

// Unchanged says that the pipeline's state at an instant is what the store holds.
func (p *Pipeline) Unchanged(checkpoint, position uint64, at time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := p.rec.last()
	if last == nil || p.rec.Draft != nil || p.rec.WantBase != "" || last.Checkpoint != checkpoint || last.Position != position {
		return false
	}
	p.asOf = at
	return true
}

// Forgo says that the changes since what the store holds are not kept any more: the next upload is a base.
func (p *Pipeline) Forgo(why string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rec.WantBase = why
	return p.note()
}

// giveUp is Forgo, and a delta under way is dropped: it would go on from what is not whole.
func (p *Pipeline) giveUp(why string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rec.WantBase = why
	if d := p.rec.Draft; d != nil && !d.Base {
		p.rec.Draft, p.rec.Built, p.todo = nil, SHA{}, nil
	}
	return p.note()
}

// note makes the record durable. mu is held.
func (p *Pipeline) note() error {
	b, err := p.rec.encode()
	if err == nil {
		err = p.spool.Write(recordName, b)
	}
	if err != nil {
		return fmt.Errorf("note upload of pipeline %s: %w", p.name, err)
	}
	return nil
}

// Sum is what plans are compared by.
func Sum(plan []byte) SHA { return sha256.Sum256(plan) }

// Status is what an operator is told.
type Status struct {
	Pipeline   string
	UUID       UUID
	Serial     uint64
	Checkpoint uint64
	Position   uint64
	CreatedMs  int64 // of the newest checkpoint in the store, by this device's clock
	UploadMs   int64
	// Age is how old the newest state in the store is: what would be lost if the device died now. Negative: this process has not uploaded yet, see CreatedMs.
	Age       time.Duration
	Pending   uint64 // bytes of the upload under way that are not in the store
	Base      bool   // the upload under way is a base
	Sent      uint64 // bytes put by this process, repeats too
	Uploads   uint64 // that were completed by this process
	BaseBytes uint64
	Deltas    uint64 // bytes of the chain's deltas
	Error     string
	Fenced    bool
}

// Status may be called at any time.
func (p *Pipeline) Status(now time.Time) Status {
	fenced := p.u.isFenced()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Status{Pipeline: p.name, UUID: p.id, Age: -1, Error: p.err, Sent: p.sent, Uploads: p.done, UploadMs: p.rec.UploadMs, Fenced: fenced}
	if m := p.rec.last(); m != nil {
		s.Serial, s.Checkpoint, s.Position, s.CreatedMs, s.BaseBytes, s.Deltas = m.Serial, m.Checkpoint, m.Position, m.CreatedMs, m.BaseBytes, m.DeltaBytes
	}
	if !p.asOf.IsZero() {
		s.Age = now.Sub(p.asOf)
	}
	if d := p.rec.Draft; d != nil {
		s.Base = d.Base
		if len(p.todo) == 0 {
			for _, f := range d.M.Frames {
				s.Pending += f.bytes()
			}
		}
		for i := p.at.at; i < len(p.todo); i++ {
			s.Pending += p.todo[i].bytes
		}
	}
	return s
}
