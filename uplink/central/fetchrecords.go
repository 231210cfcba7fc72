package central

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink/bucket"
)

// Replay is a run of shipped records without a hole. Last 0: there is none.
type Replay struct {
	Last   uint64
	WallMs int64 // of the last record, by the clock of the device that shipped it
	Pieces int
	Bytes  uint64 // as stored
	// PassedOver says why pieces with later records are not in it.
	PassedOver []string

	chain []*openedRecords // oldest first; without their payload when that is read again
	walk  *walk
}

// replayBytes of pieces are kept in memory between the walk and the replay, the newest; what a long outage of uploads leaves is read a second time.
const replayBytes = 4 << 20

// Records finds the unbroken run of shipped records that begins at or before the one behind a position and goes furthest. Each piece of it is signed by a key that is trusted,
// bound to the gateway and the journal, and named by the one behind it. An error says that the store did not answer: nothing is known to be lost.
func (f *Fetcher) Records(ctx context.Context, journal string, above uint64) (*Replay, error) {
	if err := f.ready(); err != nil {
		return nil, err
	}
	names := NamesOf(f.Gateway)
	var all []Name
	err := bucket.Each(ctx, f.Bucket, names.AllRecords(journal), func(o bucket.Object) error {
		if n, err := Parse(o.Name); err == nil && n.Last > above {
			all = append(all, n)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list shipped records of gateway %s: %w", f.Gateway, err)
	}
	slices.SortFunc(all, func(a, b Name) int {
		return cmp.Or(cmp.Compare(b.Last, a.Last), slices.Compare(a.SHA[:], b.SHA[:]))
	})
	w := &walk{f: f, journal: journal, above: above, there: map[SHA]Name{}, bad: map[SHA]error{}}
	for _, n := range all {
		w.there[n.SHA] = n
	}
	r := &Replay{walk: w}
	for _, n := range all {
		if w.bad[n.SHA] != nil {
			continue
		}
		chain, err := w.back(ctx, n)
		if err == nil {
			newest := chain[0]
			slices.Reverse(chain)
			r.chain, r.Last, r.WallMs, r.Pieces = chain, newest.Last, newest.WallMs, len(chain)
			for _, o := range chain {
				r.Bytes += o.bytes
			}
			return r, nil
		}
		if !judged(err) {
			return nil, err
		}
		r.PassedOver = append(r.PassedOver, fmt.Sprintf("shipped records up to %d: %v", n.Last, err))
	}
	return r, nil
}

type walk struct {
	f       *Fetcher
	journal string
	above   uint64
	there   map[SHA]Name
	bad     map[SHA]error
	kept    uint64 // bytes of payloads in memory
}

// back goes from a piece to those before it, until one has the record that is wanted first. Newest first. Of a walk that ends before, no piece is tried again.
func (w *walk) back(ctx context.Context, n Name) (chain []*openedRecords, err error) {
	walked := []SHA{}
	w.kept = 0
	defer func() {
		if err != nil {
			for _, s := range walked {
				w.bad[s] = err
			}
		}
	}()
	for {
		walked = append(walked, n.SHA)
		if err := w.bad[n.SHA]; err != nil {
			return nil, err
		}
		o, err := w.open(ctx, n)
		if err != nil {
			return nil, err
		}
		if len(chain) > 0 {
			if behind := chain[len(chain)-1]; o.Last+1 != behind.First && !w.f.plant.holes {
				return nil, fmt.Errorf("%w: the piece before record %d ends at %d", ErrBroken, behind.First, o.Last)
			}
		}
		if o.bytes = uint64(len(o.payload)); w.kept+o.bytes > replayBytes && !w.f.plant.keepAll {
			o.payload = nil
		}
		w.kept += uint64(len(o.payload))
		chain = append(chain, o)
		if o.First <= w.above+1 {
			return chain, nil
		}
		before := o.before()
		next, ok := w.there[before]
		switch {
		case ok:
			n = next
		case w.f.plant.holes:
			return chain, nil
		case before == SHA{}:
			return nil, fmt.Errorf("%w: they begin at %d, wanted from %d on", ErrBroken, o.First, w.above+1)
		default:
			return nil, fmt.Errorf("%w: the piece before record %d is missing in the store", ErrBroken, o.First)
		}
	}
}

func (w *walk) open(ctx context.Context, n Name) (*openedRecords, error) {
	b, err := w.f.get(ctx, NamesOf(w.f.Gateway).Records(w.journal, n.Last, n.SHA), bytesMaxOf(KindRecords))
	if err != nil {
		return nil, err
	}
	o, err := w.f.codec.openRecords(b, n.SHA, w.f.Trust)
	if err != nil {
		return nil, err
	}
	o.name = n
	if o.Gateway != w.f.Gateway || o.Journal != w.journal || o.Last != n.Last {
		return nil, fmt.Errorf("%w: records %d to %d of gateway %q, journal %s", ErrForeign, o.First, o.Last, o.Gateway, o.Journal)
	}
	return o, nil
}

// Each gives the records, in order, with the positions and stamps that they had. A block without entries is positions that the journal had left out; stamp is that of the block.
func (r *Replay) Each(ctx context.Context, unseal Unseal, take func(b *pipeline.Block, stamp pipeline.Stamp) error) error {
	for _, o := range r.chain {
		if o.payload == nil {
			var err error
			if o, err = r.walk.open(ctx, o.name); err != nil { // named by its sha: it is the same, or an error
				return fmt.Errorf("read shipped records again: %w", err)
			}
		}
		runs, err := r.walk.f.codec.runs(o, unseal)
		if err != nil {
			return err
		}
		for i := range runs {
			if err := take(runs[i].block(), runs[i].stamp()); err != nil {
				return err
			}
		}
	}
	return nil
}
