//go:build !nocentral

package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/central"
)

// shipping brings the journal's records behind the uploaded checkpoints into the central store (central.ship_journal). run owns all that has no comment of its own.
type shipping struct {
	agent   *Agent
	every   time.Duration
	shipper *central.Shipper
	lowest  func() (pipeline.Position, bool)

	reader pipeline.BlockReader
	begun  pipeline.Position // where the chain begins
	next   pipeline.Position // that is read next
	told   uplink.Told

	mu   sync.Mutex // guards what is below
	asOf time.Time  // all that was durable then is shipped; zero: not known
	upTo pipeline.Position
	err  string
}

// newShipping gives nil when no records are shipped.
func (a *Agent) newShipping() *shipping {
	every := a.config.Central.ShipJournal
	if every == 0 {
		return nil
	}
	inc := a.incarnation()
	return &shipping{agent: a, every: every, shipper: a.offsites.uploader.Shipper(a.registry.Journal, inc.Major, inc.Minor), lowest: a.lowestUpload}
}

// lowestUpload is the lowest position of the pipelines' newest uploads: what lies behind it some pipeline would lose. false: nothing is uploaded.
func (a *Agent) lowestUpload() (low pipeline.Position, ok bool) {
	for _, sup := range a.all() {
		id, err := statedir.ParseUUID(a.registry.UUID(sup.name))
		p := a.offsites.pipe(id)
		if err != nil || p == nil {
			continue
		}
		s := p.Status(time.Now())
		if at := pipeline.Position(s.Position); s.Serial > 0 && (!ok || at < low) {
			low, ok = at, true
		}
	}
	return low, ok
}

// shipRetry is how soon a piece is sent again; it doubles up to the most.
const (
	shipRetry    = time.Second
	shipRetryMax = time.Minute
)

// run ships until ctx ends. Nothing waits for it, and it holds nothing in the journal: what that lets go before it was shipped lies in an uploaded checkpoint, or a new chain begins behind it.
func (s *shipping) run(ctx context.Context) error {
	if s == nil {
		return nil
	}
	defer s.leave()
	wait, retry := s.every, shipRetry
	for {
		if !pauseFor(ctx, wait) {
			return nil
		}
		err := s.round(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			wait, retry = max(retry, s.every), min(2*retry, shipRetryMax)
		default:
			wait, retry = s.every, shipRetry
		}
		s.tell(err)
	}
}

// tell keeps how the last round went for the status, and logs each kind of failure once until one ends well.
func (s *shipping) tell(err error) {
	text := ""
	if err == nil {
		s.told.Forget()
	} else if text = err.Error(); s.told.First(err) {
		s.agent.log.Warn("central store: records wait to be shipped", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = text
}

// round ships what is durable now.
func (s *shipping) round(ctx context.Context) error {
	now, durable := time.Now(), s.agent.journal.Durable()
	if s.shipper.Packed() {
		if err := s.shipper.Send(ctx); err != nil {
			return err
		}
	}
	if ready, err := s.join(); err != nil || !ready {
		return err
	}
	for s.next <= durable {
		if err := s.ship(ctx, durable); err != nil || s.reader == nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asOf, s.upTo = now, durable
	return nil
}

// join makes the chain one that goes on from the newest uploads: it begins anew where they stand below its beginning, or have passed its end. false: nothing is uploaded yet.
func (s *shipping) join() (bool, error) {
	low, ok := s.lowest()
	if !ok {
		return false, nil
	}
	if s.reader != nil && low+1 >= s.begun && low < s.next {
		return true, nil
	}
	if s.reader != nil && low < s.next && s.agent.journal.First() >= s.begun {
		return true, nil // what lies below is gone
	}
	s.leave()
	from := max(low+1, s.agent.journal.First())
	if from > low+1 {
		s.agent.log.Error("central store: records are gone from the journal that no upload has; they are not shipped", "first", uint64(low+1), "last", uint64(from-1))
	}
	r, err := s.agent.journal.Reader(from)
	if err != nil {
		return false, fmt.Errorf("read the journal at %d: %w", from, err)
	}
	s.reader, s.begun, s.next = r, from, from
	return true, nil
}

// leave ends the chain.
func (s *shipping) leave() {
	s.shipper.Begin()
	if s.reader != nil {
		_ = s.reader.Close() // only read
		s.reader = nil
	}
}

// ship makes a piece of what is durable, and sends it.
func (s *shipping) ship(ctx context.Context, durable pipeline.Position) error {
	var blocks []*pipeline.Block
	for size := 0; s.next <= durable && size < central.ShipBytes; {
		b, err := s.reader.Next(ctx) // does not wait: it is durable
		if err != nil {
			s.leave()
			if errors.Is(err, pipeline.ErrTrimmed) { // an upload has it, or join tells
				return nil
			}
			return fmt.Errorf("read the journal at %d: %w", s.next, err)
		}
		size += central.ShippedBytes(b)
		blocks, s.next = append(blocks, b), b.Last+1
	}
	if err := s.shipper.Pack(blocks); err != nil {
		s.leave()
		return err
	}
	return s.shipper.Send(ctx)
}

// lossAge is how old the oldest record is that would be lost of a pipeline whose newest upload stands at a position; -1: not known, or its age is that of the upload.
func (s *shipping) lossAge(position uint64, durable pipeline.Position, now time.Time) (age float64, upTo uint64, err string) {
	if s == nil {
		return -1, 0, ""
	}
	first, last, _ := s.shipper.Shipped()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.asOf.IsZero() || first > position+1 && uint64(s.upTo) > position:
		return -1, last, s.err
	case s.upTo >= durable:
		return 0, max(last, position), s.err
	}
	return now.Sub(s.asOf).Seconds(), max(last, position), s.err
}
