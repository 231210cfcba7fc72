package offsite

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/outbox"
	"github.com/weirstream/weir/uplink/central"
)

// Running is what Take needs of a running pipeline.
type Running struct {
	// Hold makes a checkpoint now and keeps it until release.
	Hold func(ctx context.Context) (c snapshot.Checkpoint, release func(), err error)
	// KeepFrom keeps what changes since a checkpoint.
	KeepFrom func(id uint64)
	Store    snapshot.Store
	Outbox   *outbox.Outbox
	Graph    *plan.Graph
	// About says who and where: Writer, Gateway, Pipeline, Journal, ElapsedNs. Major and Minor are the incarnation. The rest comes from the checkpoint.
	About savepoint.Head
}

// Take makes a checkpoint of a running pipeline and hands to p what the central store lacks of it. It does nothing, and says false, while an upload is under way or when nothing has
// changed. The pipeline goes on; deliveries wait while new results that upstream does not hold are copied. What was handed over is durable on this device.
func Take(ctx context.Context, p *central.Pipeline, r Running) (bool, error) {
	if _, ok := p.Wanted(central.SHA{}, 0); !ok {
		return false, nil
	}
	c, release, err := r.Hold(ctx)
	if err != nil {
		return false, fmt.Errorf("checkpoint for upload: %w", err)
	}
	defer release()
	at := time.Now()
	if p.Unchanged(c.ID, uint64(c.Position), at) {
		return false, nil
	}
	for range 2 {
		why, err := r.take(ctx, p, c, at)
		if !errors.Is(err, snapshot.ErrNoChanges) {
			if err == nil && why {
				r.KeepFrom(p.Keep())
			}
			return why, err
		}
		if err := p.Forgo(err.Error()); err != nil {
			return false, err
		}
	}
	return false, fmt.Errorf("upload checkpoint %d: neither its changes nor all of it can be read", c.ID)
}

func (r *Running) take(ctx context.Context, p *central.Pipeline, c snapshot.Checkpoint, at time.Time) (bool, error) {
	pin := r.Outbox.Pin()
	defer pin.Release()
	head, err := savepoints.HeadOf(r.About, c.Manifest, r.Graph, pin)
	if err != nil {
		return false, fmt.Errorf("upload checkpoint %d: %w", c.ID, err)
	}
	about := aboutOf(&head, at)
	want, ok := p.Wanted(central.Sum(about.Plan), about.Major)
	if !ok {
		return false, nil
	}
	cut, err := p.Begin(want, about)
	if err != nil {
		return false, err
	}
	defer cut.Abort()
	for i, s := range about.Sinks {
		if from := cut.From(i); from <= s.Seq {
			if err := pin.CopyFrom(ctx, s.UID, from, s.Seq, func(res *result) error { return cut.Result(i, res) }); err != nil {
				return false, fmt.Errorf("upload checkpoint %d: %w", c.ID, err)
			}
		}
	}
	pin.Release()
	tables := tableNumbers{tables: head.Tables}
	err = snapshot.Changed(ctx, r.Store, c.Manifest, want.Since, func(uid, table, key, sub, val []byte, deleted bool) error {
		n, err := tables.of(uid, table)
		if err != nil {
			return err
		}
		return cut.Entry(n, key, sub, val, deleted)
	})
	if err != nil {
		return false, fmt.Errorf("upload checkpoint %d: %w", c.ID, err)
	}
	if err := cut.Commit(); err != nil {
		return false, fmt.Errorf("upload checkpoint %d: %w", c.ID, err)
	}
	return true, nil
}

// aboutOf splits a savepoint's head into what stays the same from checkpoint to checkpoint, the plan, and the rest. Tables are brought into the order of the entries.
func aboutOf(h *savepoint.Head, at time.Time) central.About {
	a := central.About{Journal: h.Journal, Writer: h.Writer, Major: uint32(h.Major), Minor: uint32(h.Minor), Generation: h.Generation, Checkpoint: h.Checkpoint,
		Position: h.Position, ElapsedNs: h.ElapsedNs, CreatedMs: h.CreatedMs, Trusted: h.Trusted, Ledger: h.Ledger, At: at}
	for _, s := range h.Sinks {
		a.Sinks = append(a.Sinks, central.Sink{UID: s.UID, Generation: s.Generation, Seq: s.Seq, Chain: s.Chain, Confirmed: s.Confirmed, ChainConfirmed: s.ChainConfirmed})
	}
	slices.SortFunc(h.Tables, func(a, b savepoint.Table) int { return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Name, b.Name)) })
	fixed := savepoint.Head{Gateway: h.Gateway, Pipeline: h.Pipeline, UUID: h.UUID, PlanHash: h.PlanHash, Plan: h.Plan, Steps: h.Steps, Tables: h.Tables}
	a.Plan = fixed.Encode()
	return a
}

// tableNumbers finds the number of a table; entries of one follow one another.
type tableNumbers struct {
	tables []savepoint.Table
	n      int
}

func (t *tableNumbers) of(uid, table []byte) (uint64, error) {
	for ; t.n < len(t.tables); t.n++ {
		if s := &t.tables[t.n]; string(uid) == s.UID && string(table) == s.Name {
			return uint64(t.n), nil
		} else if n := cmp.Or(bytes.Compare([]byte(s.UID), uid), bytes.Compare([]byte(s.Name), table)); n > 0 {
			break
		}
	}
	return 0, fmt.Errorf("BUG: the checkpoint has entries of table %s/%s, which it does not name", uid, table)
}
