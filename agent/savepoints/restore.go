package savepoints

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/outbox"
)

// Into is what a savepoint is restored into: the opened stores of a pipeline that does not run, and what the new checkpoint is to say.
type Into struct {
	Store       snapshot.Store
	Outbox      *outbox.Outbox // attached streams, not yet cut
	Pipeline    snapshot.UUID
	Incarnation snapshot.Incarnation
	PlanHash    [32]byte
	Behaviours  []snapshot.Behaviour
	Sinks       []string // of the plan, that of dead letters too
	// Position is where the pipeline goes on: the savepoint's, or another where its journal is another or has let records go.
	Position pipeline.Position
	// Generation of the sinks; Restarted: it is a new one, and the sequences of results begin behind what upstream is known to hold.
	Generation uint64
	Restarted  bool
	// Take tells under which uid the state of a step goes on; false: it is left out.
	Take    func(uid string) (as string, ok bool)
	WallMs  int64
	Trusted bool
	Told    func(entries uint64) // hears how many entries are restored; nil: nobody does
}

// Restore makes the savepoint the newest and only retained checkpoint of a pipeline: results first, then state, then the manifest. Until that is
// durable the pipeline's own checkpoints are as they were, but results that they rely on may be void: the caller remembers
// durably, before it calls, that the restore must be done, and does it again after a crash. A repeat is harmless.
func Restore(ctx context.Context, f *savepoint.File, in Into) (*snapshot.Manifest, error) {
	m := &snapshot.Manifest{
		Pipeline: in.Pipeline, ID: in.Store.LastID() + 1, Position: in.Position, PlanHash: in.PlanHash, Generation: in.Generation,
		Incarnation: in.Incarnation, WallMs: in.WallMs, Trusted: in.Trusted, Behaviours: in.Behaviours, Ledger: f.Head.Ledger,
	}
	m.Oldest = m.ID
	if err := restoreSinks(ctx, f, &in, m); err != nil {
		return nil, fmt.Errorf("restore savepoint: %w", err)
	}
	if err := restoreState(ctx, f, &in, m); err != nil {
		return nil, fmt.Errorf("restore savepoint: %w", err)
	}
	w, err := in.Store.Begin(ctx, nil, m.ID)
	if err != nil {
		return nil, fmt.Errorf("restore savepoint: %w", err)
	}
	defer w.Abort()
	if err := w.Commit(ctx, m); err != nil {
		return nil, fmt.Errorf("restore savepoint: %w", err)
	}
	return m, nil
}

// restoreSinks puts the results that upstream does not hold into the outbox and says where each sink goes on. A sink that the savepoint does not
// know goes on behind the last number that was ever given out for it here: upstream would take a lower one for a repeat.
func restoreSinks(ctx context.Context, f *savepoint.File, in *Into, m *snapshot.Manifest) error {
	inc := outbox.Incarnation{Major: in.Incarnation.Major, Minor: in.Incarnation.Minor}
	ends := map[string]uint64{}
	for _, e := range in.Outbox.Ends() {
		ends[e.UID] = e.Seq
	}
	for _, uid := range in.Sinks {
		i := slices.IndexFunc(f.Head.Sinks, func(s savepoint.Sink) bool { return s.UID == uid })
		if i < 0 {
			m.Sinks = append(m.Sinks, pipeline.SinkMark{UID: uid, Generation: in.Generation, Seq: ends[uid]})
			continue
		}
		s := f.Head.Sinks[i]
		from := pipeline.SinkMark{UID: uid, Generation: in.Generation, Seq: s.Confirmed, Chain: s.ChainConfirmed}
		mark := pipeline.SinkMark{UID: uid, Generation: in.Generation, Seq: s.Seq, Chain: s.Chain}
		if in.Restarted {
			from.Chain, mark.Chain = 0, 0
		}
		r, err := in.Outbox.Adopt(ctx, from, inc, func(each func(*pipeline.Result) error) error { return f.Results(uid, each) })
		if err != nil {
			return err
		}
		m.Sinks = append(m.Sinks, mark)
		m.Outbox = append(m.Outbox, snapshot.OutboxRange{UID: uid, Generation: r.Generation, Confirmed: r.Confirmed, Last: r.Last, Chain: r.ChainConfirmed})
	}
	if err := in.Outbox.Cut(ctx, m.Sinks, inc); err != nil {
		return err
	}
	return nil
}

// toldEvery is how many entries are restored between two calls of Into.Told.
const toldEvery = 4096

// taken is a table that goes on under a uid.
type taken struct {
	savepoint.Table
	as string
}

func restoreState(ctx context.Context, f *savepoint.File, in *Into, m *snapshot.Manifest) (err error) {
	var tables []taken
	for _, t := range f.Head.Tables {
		if as, ok := in.Take(t.UID); ok {
			tables = append(tables, taken{t, as})
			m.Tables = append(m.Tables, snapshot.TableMeta{UID: as, Spec: t.Spec(), Since: m.ID})
		}
	}
	sort.Slice(tables, func(i, j int) bool {
		a, b := &tables[i], &tables[j]
		return a.as < b.as || a.as == b.as && a.Name < b.Name
	})
	n := uint64(0)
	m.Base, err = in.Store.Import(ctx, m, func(add snapshot.AddEntry) error {
		for _, t := range tables {
			_, _, err := f.Entries(t.UID, t.Name, func(key, sub, val []byte) error {
				if n++; n%toldEvery == 0 && in.Told != nil {
					in.Told(n)
				}
				return add(t.as, t.Name, key, sub, val)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return err
}
