// Package savepoints takes savepoints of running pipelines, restores them into their stores, and judges what a changed plan can take over
// of one. What a file is, is snapshot/savepoint's; when a pipeline may be restored, agent's.
package savepoints

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/log"
	"github.com/weirstream/weir/store/outbox"
)

// Running is what Take needs of a running pipeline.
type Running struct {
	// Hold makes a checkpoint now and keeps it until release.
	Hold   func(ctx context.Context) (c snapshot.Checkpoint, release func(), err error)
	Store  snapshot.Store
	Outbox *outbox.Outbox
	Graph  *plan.Graph
	// About says who and where: Writer, Gateway, Pipeline, Journal, Drained. The rest comes from the checkpoint.
	About savepoint.Head
	Codec *log.Codec
}

// Take makes a savepoint of a running pipeline in the file path: durable and verified on return. The pipeline goes on meanwhile; deliveries wait
// while results that upstream does not hold are copied. When it fails there is no file of that name. told hears the bytes written.
func Take(ctx context.Context, fsys disk.FS, path string, r Running, told func(n int64)) (*savepoint.Head, savepoint.Summary, error) {
	c, release, err := r.Hold(ctx)
	if err != nil {
		return nil, savepoint.Summary{}, fmt.Errorf("take savepoint: %w", err)
	}
	defer release()
	state, err := r.Store.Load(c.Manifest)
	if err != nil {
		return nil, savepoint.Summary{}, fmt.Errorf("take savepoint of checkpoint %d: %w", c.ID, err)
	}
	pin := r.Outbox.Pin()
	defer pin.Release()
	h, err := HeadOf(r.About, c.Manifest, r.Graph, pin)
	if err != nil {
		return nil, savepoint.Summary{}, fmt.Errorf("take savepoint of checkpoint %d: %w", c.ID, err)
	}
	sum, err := savepoint.Create(ctx, fsys, path, savepoint.Content{
		Head: h, State: state,
		Results: func(s *savepoint.Sink, each func(r *pipeline.Result) error) error {
			return pin.Copy(ctx, s.UID, s.Seq, each)
		},
		Copied: pin.Release,
	}, r.Codec, told)
	if err != nil {
		return nil, savepoint.Summary{}, err
	}
	return &h, sum, nil
}

// HeadOf describes a checkpoint. Numbers of results are those of the wire: for a stream whose results may repeat they go on from there.
func HeadOf(h savepoint.Head, m *snapshot.Manifest, g *plan.Graph, pin *outbox.Pin) (savepoint.Head, error) {
	h = stateOf(h, m, g)
	for _, mark := range m.Sinks {
		s, err := sinkOf(mark, pin)
		if err != nil {
			return h, err
		}
		h.Sinks = append(h.Sinks, s)
	}
	return h, nil
}

// stateOf is HeadOf without the sinks.
func stateOf(h savepoint.Head, m *snapshot.Manifest, g *plan.Graph) savepoint.Head {
	h.UUID, h.Checkpoint, h.Position, h.Generation = m.Pipeline[:], m.ID, uint64(m.Position), m.Generation
	h.Major, h.Minor = uint64(m.Incarnation.Major), uint64(m.Incarnation.Minor)
	h.CreatedMs, h.Trusted = m.WallMs, m.Trusted
	h.PlanHash, h.Plan, h.Ledger = m.PlanHash[:], []byte(plan.Meaning(g)), m.Ledger
	for _, s := range g.Steps {
		h.Steps = append(h.Steps, savepoint.Step{UID: s.UID, Kind: s.Kind, Params: s.Params, Behaviour: uint64(s.Behaviour), Stateful: s.Stateful})
	}
	for _, t := range m.Tables {
		h.Tables = append(h.Tables, savepoint.TableOf(t.UID, t.Spec))
	}
	return h
}

func sinkOf(m pipeline.SinkMark, pin *outbox.Pin) (savepoint.Sink, error) {
	s := savepoint.Sink{UID: m.UID, Generation: m.Generation, Seq: m.Seq, Chain: m.Chain, Confirmed: m.Seq, ChainConfirmed: m.Chain}
	w, ok := pin.Waiting(m.UID)
	if !ok || w.Generation == 0 {
		if m.Seq > 0 {
			return s, fmt.Errorf("sink %s stands at %d, and its outbox knows of none", m.UID, m.Seq)
		}
		return s, nil
	}
	if w.Generation != m.Generation {
		return s, fmt.Errorf("sink %s is in generation %d, its outbox in %d", m.UID, m.Generation, w.Generation)
	}
	if s.Seq += w.Shift; w.Confirmed < s.Seq {
		s.Confirmed, s.ChainConfirmed = w.Confirmed, w.Chain
	} else {
		s.Confirmed = s.Seq
	}
	return s, nil
}
