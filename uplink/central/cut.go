package central

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// About is what an upload says of its checkpoint.
type About struct {
	Journal, Writer string
	Major, Minor    uint32
	Generation      uint64
	Checkpoint      uint64
	Position        uint64
	ElapsedNs       int64
	CreatedMs       int64
	Trusted         bool
	Ledger          []byte
	// Plan is what does not change from checkpoint to checkpoint; it is uploaded when it differs.
	Plan []byte
	// Sinks without Parts.
	Sinks []Sink
	// At is the instant of the checkpoint, by this process's clock.
	At time.Time
}

// Cut takes what is to be uploaded: for each sink its results, then the entries of the frame, then Commit. All of it is on the device when Commit returns. It belongs
// to one goroutine; exactly one of Commit and Abort ends it.
type Cut struct {
	p       *Pipeline
	want    Want
	about   About
	upload  Upload
	frame   Frame
	sinks   []Sink
	open    int // sink whose results are taken; -1: none
	first   uint64
	last    uint64 // result taken
	buf     []byte
	key     []byte // table, key, sub of the last entry
	sub     []byte
	table   uint64
	begun   bool
	spooled []string
	ended   bool
}

// Begin starts an upload of what Wanted said.
func (p *Pipeline) Begin(w Want, a About) (*Cut, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rec.Draft != nil || p.cutting {
		return nil, fmt.Errorf("upload of pipeline %s: one is under way", p.name)
	}
	p.cutting = true
	c := &Cut{p: p, want: w, about: a, frame: Frame{Checkpoint: a.Checkpoint}, open: -1}
	_, _ = rand.Read(c.upload[:]) // never fails
	for _, s := range a.Sinks {
		s.Parts = nil
		if before, ok := w.Sinks[s.UID]; ok && before.Generation == s.Generation {
			for _, part := range before.Parts { // those that upstream does not hold yet are there already
				if part.Last > s.Confirmed {
					s.Parts = append(s.Parts, part)
				}
			}
		}
		c.sinks = append(c.sinks, s)
	}
	return c, nil
}

// From is the first result of a sink that Result wants; those before it are in the store, or upstream.
func (c *Cut) From(sink int) uint64 {
	s := &c.sinks[sink]
	from := s.Confirmed + 1
	if n := len(s.Parts); n > 0 {
		from = max(from, s.Parts[n-1].Last+1)
	}
	return from
}

// Result takes the next result of a sink. Those that are there already are passed over, and a gap is cut to what is not.
func (c *Cut) Result(sink int, r *pipeline.Result) error {
	if sink != c.open {
		if err := c.endResults(); err != nil {
			return err
		}
		c.open, c.last = sink, c.From(sink)-1
	}
	if r.Last <= c.last {
		return nil
	}
	one := *r
	if one.Seq <= c.last && one.Kind == pipeline.ResultGap {
		one.Seq = c.last + 1
	}
	if one.Seq != c.last+1 || one.Last > c.sinks[sink].Seq {
		return fmt.Errorf("%w: sink %s: result %d to %d behind %d", ErrOrder, c.sinks[sink].UID, one.Seq, one.Last, c.last)
	}
	if len(c.buf) == 0 {
		c.first = one.Seq
	}
	c.buf = appendResult(c.buf, &one)
	c.last = one.Last
	if len(c.buf) < pieceBytes {
		return nil
	}
	return c.closeResults()
}

func (c *Cut) closeResults() error {
	if len(c.buf) == 0 {
		return nil
	}
	ref, err := c.piece()
	if err != nil {
		return err
	}
	s := &c.sinks[c.open]
	s.Parts = append(s.Parts, Part{First: c.first, Last: c.last, Ref: ref})
	return nil
}

func (c *Cut) endResults() error {
	if c.open < 0 {
		return nil
	}
	err := c.closeResults()
	c.open = -1
	return err
}

// Entry takes the next entry, in rising order of (table, key, sub).
func (c *Cut) Entry(table uint64, key, sub, val []byte, deleted bool) error {
	if err := c.endResults(); err != nil {
		return err
	}
	if c.begun && compareEntry(c.table, c.key, c.sub, table, key, sub) >= 0 {
		return fmt.Errorf("%w: table %d", ErrOrder, table)
	}
	c.table, c.key, c.sub, c.begun = table, append(c.key[:0], key...), append(c.sub[:0], sub...), true
	e := entry{table: table, key: key, sub: sub, val: val, deleted: deleted}
	c.buf = e.append(c.buf)
	c.frame.Entries++
	if len(c.buf) < pieceBytes {
		return nil
	}
	return c.closeEntries()
}

func compareEntry(t uint64, key, sub []byte, u uint64, key2, sub2 []byte) int {
	switch {
	case t < u:
		return -1
	case t > u:
		return 1
	}
	if n := bytes.Compare(key, key2); n != 0 {
		return n
	}
	return bytes.Compare(sub, sub2)
}

func (c *Cut) closeEntries() error {
	if len(c.buf) == 0 {
		return nil
	}
	ref, err := c.piece()
	c.frame.Refs = append(c.frame.Refs, ref)
	return err
}

// piece puts what was gathered into the spool.
func (c *Cut) piece() (Ref, error) {
	ref, err := c.store(c.buf)
	c.buf = c.buf[:0]
	return ref, err
}

func (c *Cut) store(plain []byte) (Ref, error) {
	b, ref, err := c.p.u.codec.pack(c.upload, plain, c.p.u.config.Seal)
	if err != nil {
		return ref, err
	}
	name := spoolName(KindObject, ref.SHA)
	c.spooled = append(c.spooled, name)
	if err := c.p.spool.Write(name, b); err != nil {
		return ref, fmt.Errorf("keep piece for upload: %w", err)
	}
	return ref, nil
}

// Commit makes the upload due. It is on the device, durably.
func (c *Cut) Commit() error {
	err := c.finish()
	if err != nil {
		c.Abort()
	}
	return err
}

func (c *Cut) finish() error {
	if err := c.endResults(); err != nil {
		return err
	}
	if err := c.closeEntries(); err != nil {
		return err
	}
	for i := range c.sinks {
		if s := &c.sinks[i]; c.From(i) != s.Seq+1 && c.From(i) <= s.Seq {
			return fmt.Errorf("%w: sink %s: results %d to %d were not given", ErrOrder, s.UID, c.From(i), s.Seq)
		}
	}
	a, d := &c.about, &draft{Base: c.want.Since == 0, PlanSum: Sum(c.about.Plan), AsOfMs: c.about.CreatedMs}
	c.p.mu.Lock()
	last, planSum := c.p.rec.last(), c.p.rec.PlanSum
	c.p.mu.Unlock()
	plan := Ref{}
	if last != nil && planSum == d.PlanSum && !d.Base {
		plan = last.Plan
	} else {
		var err error
		if plan, err = c.store(appendBytes(nil, a.Plan)); err != nil {
			return err
		}
	}
	d.M = Manifest{Gateway: c.p.u.config.Gateway, Name: c.p.name, UUID: c.p.id, Journal: a.Journal, Writer: a.Writer, Upload: c.upload,
		Major: a.Major, Minor: a.Minor, Generation: a.Generation, Checkpoint: a.Checkpoint, Position: a.Position, ElapsedNs: a.ElapsedNs,
		CreatedMs: a.CreatedMs, Trusted: a.Trusted, Ledger: a.Ledger, Plan: plan, Sinks: c.sinks}
	if len(c.frame.Refs) > 0 || d.Base {
		d.M.Frames = []Frame{c.frame}
	}
	p := c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rec.Draft, p.rec.Built = d, SHA{}
	if err := p.note(); err != nil {
		p.rec.Draft = nil
		return err
	}
	p.at, p.todo, p.cutting, p.fresh, c.ended, p.draftAt = progress{}, nil, false, 0, true, a.At
	p.u.wake()
	return nil
}

// Abort forgets what was taken. Harmless after Commit.
func (c *Cut) Abort() {
	if c.ended {
		return
	}
	c.ended = true
	for _, name := range c.spooled {
		_ = c.p.spool.Remove(name) // what stays is removed with the next upload
	}
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.p.cutting = false
}
