package agent

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/snapshot"
)

// lostRange are records that a pipeline had not read when the journal let them go (RULES 19, 21).
type lostRange struct{ first, last pipeline.Position }

// findLost compares the newest checkpoint with the journal's first record.
func (a *attempt) findLost(ctx context.Context) (*lostRange, error) {
	list, err := a.store.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	return lostBetween(list.Manifests, a.agent.journal.First()), nil
}

// lostBetween is pure; manifests are newest first.
func lostBetween(manifests []*snapshot.Manifest, first pipeline.Position) *lostRange {
	if len(manifests) == 0 || manifests[0].Position+1 >= first {
		return nil
	}
	return &lostRange{first: manifests[0].Position + 1, last: first - 1}
}

// refuseLost is the error of a pipeline that may not go on without being told to.
func (a *attempt) refuseLost(l *lostRange) error {
	return fmt.Errorf("%w: records %d to %d are gone: the journal was full and let this pipeline go; start the agent with --accept-gap %s to go on behind them (the upstream sees a new generation)",
		errFinal, l.first, l.last, a.spec.Name.Value)
}

// crossGap moves a restored pipeline behind the lost records: the gap is in the journal, durably, and every sink begins a new
// generation whose sequence goes on, so that the upstream sees that continuity was broken.
func (a *attempt) crossGap(ctx context.Context, l *lostRange, marks []pipeline.SinkMark, source pipeline.StateSource) ([]pipeline.SinkMark, pipeline.StateSource, error) {
	text := fmt.Sprintf("pipeline %s goes on behind records %d to %d, which the full journal let go", a.spec.Name.Value, l.first, l.last)
	if _, err := a.agent.journal.Append(&pipeline.Entry{Kind: pipeline.EntryGap, Payload: []byte(text)}); err != nil {
		return nil, nil, fmt.Errorf("journal the gap: %w", err)
	}
	if err := a.agent.journal.Sync(ctx); err != nil {
		return nil, nil, fmt.Errorf("journal the gap: %w", err)
	}
	a.log.Error("records were lost to a full journal", "first", uint64(l.first), "last", uint64(l.last))
	next := make([]pipeline.SinkMark, len(marks))
	for i, m := range marks {
		m.Generation, m.Chain = m.Generation+1, 0
		next[i] = m
	}
	return next, movedSource{StateSource: source, marks: next, position: l.last}, nil
}

// movedSource is a checkpoint's state standing at a later position.
type movedSource struct {
	pipeline.StateSource
	marks    []pipeline.SinkMark
	position pipeline.Position
}

func (m movedSource) Sinks() []pipeline.SinkMark  { return m.marks }
func (m movedSource) Position() pipeline.Position { return m.position }
