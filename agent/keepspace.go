package agent

import (
	"context"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// spaceCheckEvery is how often a full journal is looked at.
const spaceCheckEvery = 5 * time.Second

// keepSpace lets go of pipelines that hold a full journal without progress, loudly (RULES 19): one dead sink must not stop
// the others for ever. What a pipeline loses that way is reported as a gap when it comes back.
func (a *Agent) keepSpace(ctx context.Context) error {
	moved := map[string]stall{}
	timer := time.NewTicker(spaceCheckEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		holders := a.holders(moved, time.Now())
		for _, name := range LetGo(a.journal.Stats().Log.Full, holders, RetainFailedDefault) {
			a.log.Error("the journal is full and this pipeline makes no progress; it is let go and will report the records it missed",
				"pipeline", name, "held_since_position", uint64(moved[name].position))
			a.journal.Release(a.holderName(name))
		}
		if err := a.journal.Trim(ctx); err != nil && ctx.Err() == nil {
			a.log.Error("journal trim failed", "error", err)
		}
	}
}

// stall is how long a pipeline's hold has not moved.
type stall struct {
	position pipeline.Position
	since    time.Time
}

func (a *Agent) holders(moved map[string]stall, now time.Time) (list []Holder) {
	held := a.journal.Stats().Holders
	for i, s := range a.supervisors {
		pos, held := held[a.holderName(s.name)]
		if !held {
			continue
		}
		if m, ok := moved[s.name]; !ok || m.position != pos {
			moved[s.name] = stall{position: pos, since: now}
		}
		list = append(list, Holder{
			Name: s.name, Retained: pos, Running: s.running() != nil, Detach: a.config.Pipelines[i].OnFull == "detach",
			Stalled: now.Sub(moved[s.name].since),
		})
	}
	return list
}

// holderName is the name under which a pipeline's coordinator holds the journal.
func (a *Agent) holderName(pipeline string) string {
	id, err := parseUUID(a.registry.Pipelines[pipeline])
	if err != nil {
		return pipeline
	}
	return id.String()
}
