package savepoints

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/log"
)

// Edit says what a copy of a savepoint differs in.
type Edit struct {
	Rename map[string]string // uid → new uid, of steps and their tables
	Drop   []string          // uids whose tables are left out
	// Content: what it holds is not what a pipeline wrote.
	Content bool
}

// Copy writes an edited copy of a savepoint into a new file; the original stays. It is for what `was:` and a new plan cannot say. The plan hash
// of a copy that differs is none that a plan has: a restore judges it step by step.
func Copy(ctx context.Context, fsys disk.FS, f *savepoint.File, path string, e Edit, codec *log.Codec) (savepoint.Summary, error) {
	h := f.Head
	h.Steps, h.Tables = nil, nil
	known := map[string]bool{}
	var from []savepoint.Table // of the copy's tables, where they come from
	for _, s := range f.Head.Steps {
		known[s.UID] = true
		if slices.Contains(e.Drop, s.UID) {
			continue
		}
		s.UID = e.uid(s.UID)
		h.Steps = append(h.Steps, s)
	}
	for _, t := range f.Head.Tables {
		known[t.UID] = true
		if slices.Contains(e.Drop, t.UID) {
			continue
		}
		from = append(from, t)
		t.UID = e.uid(t.UID)
		h.Tables = append(h.Tables, t)
	}
	for old := range e.Rename {
		if !known[old] {
			return savepoint.Summary{}, fmt.Errorf("rename: the savepoint has no step %q", old)
		}
	}
	for old, uid := range e.Rename {
		if _, moves := e.Rename[uid]; known[uid] && !moves && !slices.Contains(e.Drop, uid) {
			return savepoint.Summary{}, fmt.Errorf("rename: %s cannot become %q, the savepoint has a step of that uid: rename or drop it first", old, uid)
		}
	}
	for _, uid := range e.Drop {
		if !known[uid] {
			return savepoint.Summary{}, fmt.Errorf("drop: the savepoint has no step %q", uid)
		}
	}
	if len(e.Rename)+len(e.Drop) > 0 || e.Content {
		h.PlanHash = make([]byte, len(h.PlanHash))
	}
	return savepoint.Create(ctx, fsys, path, savepoint.Content{
		Head: h, State: copied{File: f, tables: h.Tables, from: from},
		Results: func(s *savepoint.Sink, each func(*pipeline.Result) error) error { return f.Results(s.UID, each) },
	}, codec, nil)
}

func (e *Edit) uid(uid string) string {
	if to, ok := e.Rename[uid]; ok {
		return to
	}
	return uid
}

// copied gives the tables of a file under the names of its copy.
type copied struct {
	*savepoint.File
	tables, from []savepoint.Table
}

func (c copied) Entries(uid, name string, f func(key, sub, val []byte) error) (state.Spec, bool, error) {
	for i := range c.tables {
		if c.tables[i].UID == uid && c.tables[i].Name == name {
			return c.File.Entries(c.from[i].UID, name, f)
		}
	}
	return state.Spec{}, false, nil
}
