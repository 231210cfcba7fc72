package takeover

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/journal"
)

// Records are what a device has shipped of its journal behind its checkpoints. Last 0: nothing.
type Records struct {
	Last   uint64
	WallMs int64 // of the last one
	Notes  []string
	// Each gives them in order, as they were. A block without entries is positions that were left out.
	Each func(take func(b *pipeline.Block, stamp pipeline.Stamp) error) error
}

// shipped is a Legacy that may have records too.
type shipped interface {
	// Records finds the unbroken run that begins at or before the record behind a position.
	Records(ctx context.Context, gateway, journal string, above uint64) (Records, error)
}

// takeRecords makes the journal that this device begins with. It has the records that were shipped, at the positions and under the stamps that they had: state holds positions, and time is what the stamps
// say. What comes later lies behind all that any state holds. It is durable on return; a crash leaves a journal that the next try clears away.
func (t *takeover) takeRecords(ctx context.Context) error {
	if len(t.left) == 0 {
		return nil
	}
	r, err := t.findRecords(ctx)
	if err != nil {
		return fmt.Errorf("fetch the records that gateway %s has shipped: %w", t.o.Gateway, err)
	}
	t.told.Notes = append(t.told.Notes, r.Notes...)
	last, full, err := WriteJournal(ctx, journal.Options{Dir: filepath.Join(t.dir, "journal"), Config: t.journal}, r.Each, t.behind())
	if err != nil {
		return fmt.Errorf("write the records that gateway %s has shipped: %w", t.o.Gateway, err)
	}
	if full {
		t.told.Notes = append(t.told.Notes, fmt.Sprintf("journal.max_bytes holds shipped records up to %d of %d: those behind are lost", last, r.Last))
		r.Last = last
	}
	t.records = r
	return nil
}

// findRecords asks for those behind the lowest checkpoint. Positions of two journals cannot be compared.
func (t *takeover) findRecords(ctx context.Context) (r Records, err error) {
	from, ok := t.o.From.(shipped)
	if !ok {
		return r, nil
	}
	identity, low := "", uint64(0)
	for _, f := range t.left {
		h := &f.Head
		if identity != "" && identity != h.Journal {
			r.Notes = []string{"the uploads are of two journals: shipped records are of one of them and are not replayed"}
			return r, nil
		}
		if identity == "" || h.Position < low {
			low = h.Position
		}
		identity = h.Journal
	}
	return from.Records(ctx, t.o.Gateway, identity, low)
}

// WriteJournal makes a journal of records as they were, whose next record lies behind a position and behind them. It is durable on return; last is that of them that it has, full says that there was no
// room for others.
func WriteJournal(ctx context.Context, o journal.Options, each func(take func(*pipeline.Block, pipeline.Stamp) error) error, behind uint64) (last uint64, full bool, err error) {
	if err := disk.OS.MkdirAll(o.Dir); err != nil {
		return 0, false, fmt.Errorf("make %s: %w", o.Dir, err)
	}
	stamps := &givenStamp{}
	o.Stamp, o.Config.Linger = stamps.get, 0
	j, _, err := journal.Open(o)
	if err != nil {
		return 0, false, err
	}
	if each == nil {
		each = func(func(*pipeline.Block, pipeline.Stamp) error) error { return nil }
	}
	err = each(func(b *pipeline.Block, stamp pipeline.Stamp) error {
		if err := j.Sync(ctx); err != nil { // what came before has its own stamp
			return err
		}
		stamps.set(stamp)
		left := b.First - 1
		if len(b.Entries) == 0 { // they were left out there too
			left = b.Last
		}
		if err := j.SkipTo(ctx, left); err != nil {
			return err
		}
		for i := range b.Entries {
			pos, err := j.Append(&b.Entries[i])
			if err == nil && pos != b.Entries[i].Pos {
				err = fmt.Errorf("BUG: record %d is at %d", b.Entries[i].Pos, pos)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if full = errors.Is(err, pipeline.ErrJournalFull); full {
		err = nil
	}
	err = errors.Join(err, j.Sync(ctx))
	last = uint64(j.Last())
	err = errors.Join(err, j.SkipTo(ctx, pipeline.Position(behind)))
	return last, full, errors.Join(err, j.Close())
}

// givenStamp is the stamp of what is written next. The journal's committer asks for it.
type givenStamp struct {
	mu sync.Mutex
	s  pipeline.Stamp
}

func (g *givenStamp) get() pipeline.Stamp { g.mu.Lock(); defer g.mu.Unlock(); return g.s }

func (g *givenStamp) set(s pipeline.Stamp) { g.mu.Lock(); defer g.mu.Unlock(); g.s = s }
