package agent

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/snapshot"
)

// CheckReport is what fsck found.
type CheckReport struct {
	Lines  []string `json:"lines"`
	Damage []string `json:"damage"`
}

func (r *CheckReport) line(format string, args ...any) {
	r.Lines = append(r.Lines, fmt.Sprintf(format, args...))
}

func (r *CheckReport) damage(format string, args ...any) {
	r.Damage = append(r.Damage, fmt.Sprintf(format, args...))
}

// Check reads everything durable of a stopped agent: each journal record, each frame of each retained checkpoint, each outbox range that a
// checkpoint relies on, each savepoint in state_dir. It takes the lock of state_dir; ErrLocked when the agent runs.
func Check(ctx context.Context, cfg *config.Config) (*CheckReport, error) {
	a, err := New(cfg, Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer a.Close()
	r := &CheckReport{Lines: []string{}, Damage: []string{}}
	records := 0
	err = a.journal.Scan(a.journal.First(), func(e *pipeline.Entry) error {
		records++
		if e.Kind == pipeline.EntryGap {
			r.damage("journal, position %d: %s", e.Pos, e.Payload)
		}
		return ctx.Err()
	})
	if err != nil {
		r.damage("journal: %v", err)
	}
	r.line("journal: %d records, positions %d to %d", records, a.journal.First(), a.journal.Last())
	for _, s := range a.all() {
		if err := a.checkPipeline(ctx, s.spec.Pipeline, r); err != nil {
			return nil, err
		}
	}
	if err := checkSavepoints(ctx, SavepointDir(cfg), r); err != nil {
		return nil, err
	}
	return r, nil
}

// checkSavepoints reads every byte of the savepoints in a directory. What a try that was cut short has left is no damage: the next one of that name
// replaces it.
func checkSavepoints(ctx context.Context, dir string, r *CheckReport) error {
	names, err := filepath.Glob(filepath.Join(dir, "*"+SavepointSuffix))
	if err != nil {
		return fmt.Errorf("list savepoints: %w", err)
	}
	for _, name := range names {
		f, err := ReadSavepoint(ctx, name)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.damage("%v", err)
			continue
		}
		r.line("savepoint %s: of pipeline %s at position %d, is whole", filepath.Base(name), f.Head.Pipeline, f.Head.Position)
		if err := f.Close(); err != nil {
			return fmt.Errorf("close savepoint: %w", err)
		}
	}
	return nil
}

func (a *Agent) checkPipeline(ctx context.Context, p *config.Pipeline, r *CheckReport) error {
	id, err := parseUUID(a.registry.UUID(p.Name.Value))
	if err != nil {
		return err
	}
	at := &attempt{agent: a, spec: p, graph: p.Graph, id: id, log: a.log}
	defer at.close()
	if err := at.openStorage(ctx, filepath.Join(a.pipelinesDir(), id.String())); err != nil {
		r.damage("pipeline %s: %v", p.Name.Value, err)
		return nil
	}
	list, err := at.store.List(ctx)
	if err != nil {
		return fmt.Errorf("pipeline %s: %w", p.Name.Value, err)
	}
	for _, d := range list.Damage {
		r.damage("pipeline %s: %s", p.Name.Value, d)
	}
	for _, b := range append(append([]snapshot.Bad(nil), list.Bad...), list.SetAside...) {
		r.damage("pipeline %s, checkpoint %d: %s", p.Name.Value, b.ID, b.Reason)
	}
	for _, m := range list.Manifests {
		if err := at.store.Verify(ctx, m); err != nil {
			r.damage("pipeline %s, checkpoint %d: %v", p.Name.Value, m.ID, err)
			continue
		}
		if err := at.whole(m.Outbox); err != nil {
			r.damage("pipeline %s, checkpoint %d: its results are not whole: %v", p.Name.Value, m.ID, err)
			continue
		}
		r.line("pipeline %s: checkpoint %d at position %d is whole", p.Name.Value, m.ID, m.Position)
	}
	return nil
}
