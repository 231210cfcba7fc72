package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/agent/space"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/pipeline"
)

const (
	// spaceCheckEvery is how often the journal's space and the pipelines' lags are looked at.
	spaceCheckEvery = 5 * time.Second
	// trimComplaintEvery keeps a trim that fails every time from filling the log.
	trimComplaintEvery = time.Minute
)

// keepSpace lets go of pipelines that hold a full journal without progress, or lag more than they may (on_full: detach),
// loudly (RULES 19): one dead sink must not stop the others for ever. What a pipeline loses that way is a gap that it
// reports when it comes back.
func (a *Agent) keepSpace(ctx context.Context) error {
	moved := map[string]stall{}
	var complained time.Time
	timer := time.NewTicker(a.spaceEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		a.letGo(ctx, moved, time.Now())
		if a.journal.Stats().Log.Full {
			a.nudge()
		}
		a.expireDead(ctx)
		if err := a.journal.Trim(ctx); err != nil && ctx.Err() == nil && time.Since(complained) > trimComplaintEvery {
			complained = time.Now()
			a.log.Error("journal trim failed", "error", err)
		}
	}
}

// nudge has the checkpoints of running pipelines move on when all that a full journal holds is worked in: no record comes any more that
// would make them.
func (a *Agent) nudge() {
	for _, s := range a.all() {
		if at := s.running(); at != nil {
			at.coordinator.Nudge()
		}
	}
}

// errLetGo is why a pipeline that was let go stands.
var errLetGo = errors.New("the journal let this pipeline go")

// letGo carries out what space.LetGo decides. A running pipeline is ended first: its next checkpoint would hold the journal again. It
// fails for good; started again it goes on where it stood if its records are still there, else it names the range
// that is lost.
func (a *Agent) letGo(ctx context.Context, moved map[string]stall, now time.Time) {
	full := a.journal.Stats().Log.Full
	holders := a.holders(moved, now)
	for _, name := range space.LetGo(full, holders, space.RetainFailedDefault) {
		s, err := a.supervisorOf(name)
		if err != nil {
			continue
		}
		reason := fmt.Errorf("%w: %w: it held a full journal without progress; weir pipeline start %s tries again", errFinal, errLetGo, name)
		if lag, limit := lagOf(holders, name); limit > 0 && lag > limit {
			reason = fmt.Errorf("%w: %w: it lagged %d bytes, lag_limit is %d; weir pipeline start %s tries again", errFinal, errLetGo, lag, limit, name)
		}
		a.log.Error("pipeline is let go and will report the records it missed", "pipeline", name,
			"held_since_position", uint64(moved[name].position), "journal_full", full, "reason", reason)
		if err := s.ask(ctx, command{fail: reason}); err != nil {
			continue // the agent is stopping
		}
		a.journal.Release(a.holderName(name))
	}
}

func lagOf(holders []space.Holder, name string) (lag, limit int64) {
	for _, h := range holders {
		if h.Name == name {
			return h.Lag, h.LagLimit
		}
	}
	return 0, 0
}

// stall is how long a pipeline's hold has not moved.
type stall struct {
	position pipeline.Position
	since    time.Time
}

func (a *Agent) holders(moved map[string]stall, now time.Time) (list []space.Holder) {
	held := a.journal.Stats().Holders
	for _, s := range a.all() {
		pos, held := held[a.holderName(s.name)]
		if !held {
			delete(moved, s.name)
			continue
		}
		if m, ok := moved[s.name]; !ok || m.position != pos {
			moved[s.name] = stall{position: pos, since: now}
		}
		spec, at := s.spec, s.running()
		if at != nil {
			pos = at.engine.Handled()
		}
		list = append(list, space.Holder{
			Name: s.name, Retained: moved[s.name].position, Running: at != nil, Detach: spec.OnFull == "detach",
			Stalled: now.Sub(moved[s.name].since), Lag: a.lagBytes(pos), LagLimit: spec.LagBytes,
		})
	}
	return list
}

// lagBytes estimates how many journal bytes lie behind a position.
func (a *Agent) lagBytes(at pipeline.Position) int64 {
	return space.LagShare(a.journal.Stats().Log.LiveBytes, a.journal.First(), a.journal.Durable(), at)
}

// holderName is the name under which a pipeline's coordinator holds the journal.
func (a *Agent) holderName(pipeline string) string {
	id, err := statedir.ParseUUID(a.registry.UUID(pipeline))
	if err != nil {
		return pipeline
	}
	return id.String()
}
