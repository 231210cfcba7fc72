package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/agent/takeover"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/snapshot"
)

// lostRange are records that a pipeline had not read when the journal let them go (RULES 19, 21).
type lostRange struct{ first, last pipeline.Position }

// findLost compares the newest checkpoint with the journal's first record. It sets nothing aside.
func (a *attempt) findLost(ctx context.Context) (*lostRange, error) {
	list, err := a.store.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints: %w", err)
	}
	return lostBetween(a.id, list.Manifests, a.agent.journal.First()), nil
}

// lostBetween is pure; manifests are newest first, and only the pipeline's own count.
func lostBetween(id snapshot.UUID, manifests []*snapshot.Manifest, first pipeline.Position) *lostRange {
	for _, m := range manifests {
		if m.Pipeline != id {
			continue
		}
		if m.Position+1 >= first {
			return nil
		}
		return &lostRange{first: m.Position + 1, last: first - 1}
	}
	return nil
}

// refuseLost is the error of a pipeline that may not go on without being told to.
func (a *attempt) refuseLost(l *lostRange) error {
	return fmt.Errorf("%w: records %d to %d are gone: the journal let this pipeline go; start the agent with --accept-gap %s to go on behind them (the upstream sees a new generation)",
		errFinal, l.first, l.last, a.spec.Name.Value)
}

// settleLost decides what becomes of a start below the journal's first record: nil when nothing is lost, an error that names the range
// when the operator did not accept it, else the range. From then on the journal is held behind it.
func (a *attempt) settleLost(ctx context.Context) (*lostRange, error) {
	lost, err := a.findLost(ctx)
	if err != nil || lost == nil {
		return nil, err
	}
	if !a.agent.acceptGap.given(a.spec.Name.Value) {
		return nil, a.refuseLost(lost)
	}
	a.agent.journal.Retain(a.id.String(), lost.last)
	return a.findLost(ctx) // a trim may have come between
}

// crossGap moves a restored pipeline behind the lost records: the gap is in the journal, durably, and every sink begins a new
// generation whose sequence goes on, so that the upstream sees that continuity was broken.
func (a *attempt) crossGap(ctx context.Context, l *lostRange, marks []pipeline.SinkMark, source pipeline.StateSource) ([]pipeline.SinkMark, pipeline.StateSource, error) {
	text := fmt.Sprintf("pipeline %s goes on behind records %d to %d, which the journal let go", a.spec.Name.Value, l.first, l.last)
	j := a.agent.journal
	_, err := j.Append(&pipeline.Entry{Kind: pipeline.EntryGap, Payload: []byte(text)})
	if err == nil {
		err = j.Sync(ctx)
	}
	switch {
	case errors.Is(err, pipeline.ErrJournalFull):
		// Going on is what frees it: waiting for room would wait for ever. The log and the generation tell of the gap.
		a.log.Warn("the journal is full and does not take the gap's record")
	case err != nil:
		return nil, nil, fmt.Errorf("journal the gap: %w", err)
	}
	a.log.Error("records were lost; the sinks begin a new generation", "first", uint64(l.first), "last", uint64(l.last))
	if err := a.inheritMarks(generationOf(marks), marks); err != nil {
		return nil, nil, err
	}
	next := make([]pipeline.SinkMark, len(marks))
	for i, m := range marks {
		m.Generation, m.Chain = max(m.Generation+1, a.agent.identity.LeastGeneration), 0
		next[i] = m
	}
	return next, movedSource{StateSource: source, marks: next, position: l.last}, nil
}

// commitGap makes the checkpoint behind the gap, before a record is read or a result leaves: whatever comes then, a restart stands behind
// the same gap in the same generation, so that a number never names two results. The outbox has been cut. The state is the parent's.
func (a *attempt) commitGap(ctx context.Context, parent *snapshot.Manifest, l *lostRange, marks []pipeline.SinkMark) (*snapshot.Manifest, error) {
	m := *parent
	m.ID = max(a.store.LastID(), parent.ID) + 1
	m.Parent, m.Oldest = parent.ID, m.ID
	m.Position, m.Generation, m.Sinks = l.last, a.generation, marks
	m.Base, m.Frames, m.Idle = snapshot.BaseRef{}, nil, false
	inc := a.agent.incarnation()
	m.Incarnation = snapshot.Incarnation{Major: inc.Major, Minor: inc.Minor}
	stamp := a.agent.clock.Stamp()
	m.WallMs, m.Trusted = stamp.Wall, stamp.Trusted
	m.Outbox = rangesBehindGap(parent.Outbox, marks)
	w, err := a.store.Begin(ctx, parent, m.ID)
	if err != nil {
		return nil, fmt.Errorf("checkpoint behind the gap: %w", err)
	}
	defer w.Abort()
	if err := w.Commit(ctx, &m); err != nil {
		return nil, fmt.Errorf("checkpoint behind the gap: %w", err)
	}
	if first := a.agent.journal.First(); m.Position+1 < first {
		return nil, fmt.Errorf("records %d to %d were let go while the gap was crossed", m.Position+1, first-1)
	}
	return &m, nil
}

// rangesBehindGap: the new generation relies on the same results, of which upstream held the same part.
func rangesBehindGap(old []snapshot.OutboxRange, marks []pipeline.SinkMark) (list []snapshot.OutboxRange) {
	for _, r := range old {
		for _, m := range marks {
			if m.UID == r.UID {
				list = append(list, snapshot.OutboxRange{UID: r.UID, Generation: m.Generation, Confirmed: r.Confirmed, Last: m.Seq})
			}
		}
	}
	return list
}

// movedSource is a checkpoint's state standing at a later position.
type movedSource struct {
	pipeline.StateSource
	marks    []pipeline.SinkMark
	position pipeline.Position
}

func (m movedSource) Sinks() []pipeline.SinkMark  { return m.marks }
func (m movedSource) Position() pipeline.Position { return m.position }

// readLoss gives nil when nothing is lost. A file that is there and not readable keeps the pipeline from starting: without it a replay would make other results than those that are out.
func (a *attempt) readLoss() (*exec.Loss, error) {
	l, err := takeover.ReadLoss(a.agent.fs, a.dir())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errFinal, err)
	}
	return l, nil
}
