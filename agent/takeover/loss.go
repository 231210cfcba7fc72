package takeover

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
)

// LossFile in a pipeline's directory says which stretch of event time has lost records with the device before this one. It is durable before the pipeline first starts and is never changed: results of
// windows that overlap it are marked, in every replay alike.
const LossFile = "loss.json"

// Loss is what a pipeline lost when it went on from what another device had left.
type Loss struct {
	FromMs int64 `json:"from_ms"` // event time
	ToMs   int64 `json:"to_ms"`
	// What it was made of: the last record that the state has, when its checkpoint was made, and when this device took over.
	Position uint64 `json:"position"`
	LeftMs   int64  `json:"left_ms"`
	TakenMs  int64  `json:"taken_ms"`
	// After: results of records up to it lack nothing, since the device before had shipped them (Position is then the last of them); 0: none were.
	After uint64 `json:"after,omitempty"`
}

// wallLike is how far an event time may be from the wall clock that is taken for the same clock.
const wallLike = 24 * time.Hour

// lossOf is pure. clocks are those of the savepoint's sources. The stretch begins where the watermark stood, less the lateness that windows allow: every window that was open
// is in it. It ends when the device before has stopped, two polls of the claim behind it, by the clock that event times go by: the wall clock, or one that is far from it and goes on as fast.
func lossOf(h *savepoint.Head, clocks []sourceClock, latenessMs, takenMs int64, poll time.Duration) Loss {
	l := Loss{FromMs: h.CreatedMs, ToMs: takenMs, Position: h.Position, LeftMs: h.CreatedMs, TakenMs: takenMs}
	for i, c := range clocks {
		to := takenMs
		if d := c.newest - h.CreatedMs; d > wallLike.Milliseconds() || d < -wallLike.Milliseconds() {
			to = c.newest + max(0, takenMs-h.CreatedMs)
		}
		if i == 0 {
			l.FromMs, l.ToMs = c.watermark, to
		}
		l.FromMs, l.ToMs = min(l.FromMs, c.watermark), max(l.ToMs, to)
	}
	l.FromMs -= latenessMs
	l.ToMs = max(l.ToMs, l.FromMs) + 2*poll.Milliseconds()
	return l
}

type sourceClock struct{ watermark, newest int64 }

// clocksOf reads the clocks of a savepoint's sources, those that a record has set.
func clocksOf(f *savepoint.File, g *plan.Graph) (list []sourceClock, err error) {
	for _, s := range g.Sources {
		uid, name := exec.SourceTable(s.Name)
		_, _, err := f.Entries(uid, name, func(key, _, val []byte) error {
			if len(key) > 0 {
				return nil
			}
			if watermark, newest, started := exec.SourceClock(val); started && s.Time != nil {
				list = append(list, sourceClock{watermark, newest})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}

func latenessOf(p *config.Pipeline) (ms int64) {
	for _, s := range p.Steps {
		if s.Window != nil {
			ms = max(ms, s.Window.LatenessMs)
		}
	}
	return ms
}

func (l *Loss) save(dir string) error {
	if err := record.Write(disk.OS, filepath.Join(dir, LossFile), l); err != nil {
		return fmt.Errorf("note what is lost: %w", err)
	}
	return nil
}

// ReadLoss gives nil when nothing is lost.
func ReadLoss(fsys disk.FS, dir string) (*exec.Loss, error) {
	name := filepath.Join(dir, LossFile)
	var l Loss
	there, err := record.Read(fsys, name, statedir.Small(name), &l)
	if !there {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read which windows are partial: %s: %w", name, err)
	}
	return &exec.Loss{FromMs: l.FromMs, ToMs: l.ToMs, After: pipeline.Position(l.After)}, nil
}
