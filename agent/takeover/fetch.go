package takeover

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
)

// fetch gets what is left and judges, before anything is ordered, whether the config's plans can go on from it.
func (t *takeover) fetch(ctx context.Context) error {
	into := filepath.Join(t.dir, "savepoints")
	if err := disk.OS.MkdirAll(into); err != nil {
		return fmt.Errorf("make %s: %w", into, err)
	}
	all, err := t.o.From.Leave(ctx, t.o.Gateway, into)
	if err != nil {
		return fmt.Errorf("fetch what gateway %s has left: %w", t.o.Gateway, err)
	}
	t.left, t.files = map[string]*savepoint.File{}, map[string]string{}
	t.told.Left, t.told.Notes, t.fetched = nil, nil, nil
	gone := map[string]error{}
	for _, l := range all {
		t.fetched = append(t.fetched, l.File)
		if !slices.ContainsFunc(t.wanted, func(p *config.Pipeline) bool { return p.Name.Value == l.Pipeline }) {
			t.told.Left = append(t.told.Left, l.Pipeline)
			continue
		}
		f, err := (*savepoint.File)(nil), l.Err
		if err == nil {
			f, err = restore.ReadSavepoint(ctx, l.File)
		}
		if err != nil {
			gone[l.Pipeline] = err
			continue
		}
		t.left[l.Pipeline], t.files[l.Pipeline] = f, l.File
		if l.Note != "" {
			t.told.Notes = append(t.told.Notes, fmt.Sprintf("pipeline %s: %s", l.Pipeline, l.Note))
		}
	}
	var problems []error
	for _, p := range t.wanted {
		name := p.Name.Value
		f := t.left[name]
		switch {
		case !t.asked(p):
			delete(t.left, name)
		case f == nil && !accepted(t.o.AcceptLoss, p):
			problems = append(problems, fmt.Errorf("pipeline %s: nothing is left of it%s; --accept-loss %s starts it empty", name, because(gone[name]), name))
		case f != nil:
			if _, err := savepoints.Judge(&f.Head, f.Counts(), p.Graph, t.o.AllowDroppedState); err != nil {
				problems = append(problems, fmt.Errorf("pipeline %s: %w", name, err))
			}
		}
	}
	if len(problems) > 0 {
		t.close()
	}
	return errors.Join(problems...)
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return " that can be read: " + err.Error()
}

func (t *takeover) asked(p *config.Pipeline) bool {
	return len(t.o.Pipelines) == 0 || accepted(t.o.Pipelines, p)
}

func accepted(names []string, p *config.Pipeline) bool {
	return slices.Contains(names, p.Name.Value) || p.Whole != nil && slices.Contains(names, p.Whole.Name.Value)
}

// removeParts removes the pieces that the savepoints were made of.
func (t *takeover) removeParts() error {
	for _, file := range t.fetched {
		if err := offsite.RemoveParts(disk.OS, file); err != nil {
			return fmt.Errorf("remove the pieces of %s: %w", file, err)
		}
	}
	return nil
}

func (t *takeover) close() {
	for _, f := range t.left {
		_ = f.Close() // only read
	}
	t.left = nil
}
