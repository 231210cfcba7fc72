package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/outbox"
)

func (a *attempt) restore(ctx context.Context, lost *lostRange) (*snapshot.Restored, error) {
	j := a.agent.journal
	first := j.First()
	if lost != nil {
		first = 0 // the operator accepted that the records behind the checkpoint are gone
	}
	r, err := snapshot.Restore(ctx, snapshot.RestoreOptions{
		Store: a.store, Pipeline: a.id, Incarnations: a.agent.lineage(), Whole: a.whole, JournalFirst: first, JournalNext: j.Last() + 1,
		Accept: a.accept, AllowEmpty: a.agent.allowEmpty.given(a.spec.Name.Value), Logger: a.log,
	})
	switch {
	case errors.Is(err, snapshot.ErrNoCheckpoint):
		if a.begun() && !a.agent.allowEmpty.given(a.spec.Name.Value) {
			return nil, fmt.Errorf("%w: %w: the pipeline ran before and its checkpoints are gone (start with --allow-empty %s to begin anew from the journal)",
				errFinal, snapshot.ErrNoValidCheckpoint, a.spec.Name.Value)
		}
		return &snapshot.Restored{}, nil
	case errors.Is(err, snapshot.ErrNoValidCheckpoint):
		return nil, fmt.Errorf("%w: %w (start with --allow-empty %s to begin anew from the journal)", errFinal, err, a.spec.Name.Value)
	case err != nil:
		return nil, err
	}
	a.fallbacks = r.Fallbacks
	return r, nil
}

// accept refuses a checkpoint of another plan: changing a plan goes through a savepoint.
func (a *attempt) accept(m *snapshot.Manifest) error {
	if m.PlanHash == a.graph.Hash {
		return nil
	}
	if graph, steps, changed := a.earlierLookups(m); graph != nil {
		a.graph, a.steps, a.stale = graph, steps, changed
		a.log.Warn("lookup files changed; the pipeline goes on with the content that its checkpoint was made with", "files", changed, "checkpoint", m.ID)
		return nil
	}
	files := a.lookupFiles()
	if files != "" {
		files = " (the content of " + files + " is part of it)"
	}
	in := a.difference(m)
	if in != "" {
		in = " (" + in + ")"
	}
	return fmt.Errorf("%w: the pipeline's plan%s differs from the one that made checkpoint %d%s; undo the change, or take its state over: weir savepoint restore with a savepoint that the old plan stopped with (docs/savepoints.md), or give the pipeline a new name to start empty", errFinal, files, m.ID, in)
}

func (a *attempt) whole(ranges []snapshot.OutboxRange) error {
	list := make([]outbox.Range, len(ranges))
	for i, r := range ranges {
		list[i] = outbox.Range{UID: r.UID, Generation: r.Generation, Confirmed: r.Confirmed, Last: r.Last, ChainConfirmed: r.Chain}
	}
	err := a.outbox.Whole(list)
	if err != nil && !errors.Is(err, outbox.ErrNotWhole) && !errors.Is(err, outbox.ErrCorrupt) {
		err = fmt.Errorf("%w: %w", snapshot.ErrUnanswered, err)
	}
	return err
}

func (a *attempt) startMarks(r *snapshot.Restored) ([]pipeline.SinkMark, pipeline.StateSource) {
	if r.Manifest == nil {
		return nil, nil
	}
	return r.Manifest.Sinks, r.Source
}

// generationOf is that of the restored sinks; a new pipeline begins with 1.
func generationOf(marks []pipeline.SinkMark) uint64 {
	g := uint64(1)
	for _, m := range marks {
		g = max(g, m.Generation)
	}
	return g
}

// startPosition is where a pipeline without a checkpoint begins: never behind a record that a power cut may take, since the checkpoint
// that names the position is durable at once.
func (a *attempt) startPosition() pipeline.Position {
	if a.spec.Start == "earliest" {
		return a.agent.journal.First() - 1
	}
	return a.agent.journal.Durable()
}
