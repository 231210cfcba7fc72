package savepoints_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/snapshot/savepoint"
)

// TestChangedWindowSaysWhatItLoses: the size of a window changes while windows are open, and while none is; a step that is no window says nothing of windows.
func TestChangedWindowSaysWhatItLoses(t *testing.T) {
	for _, c := range []struct {
		kind    string
		entries uint64
		fate    savepoints.Fate
		windows bool
	}{
		{plan.KindWindow, 3, savepoints.Incompatible, true},
		{plan.KindWindow, 0, savepoints.Empty, false},
		{plan.KindDeadband, 3, savepoints.Incompatible, false},
	} {
		h := savepoint.Head{
			Steps:  []savepoint.Step{{UID: "w", Kind: c.kind, Params: "size 1", Behaviour: 1, Stateful: true}},
			Tables: []savepoint.Table{{UID: "w", Name: "panes"}},
		}
		g := &plan.Graph{Steps: []*plan.Step{{UID: "w", Kind: c.kind, Params: "size 2", Behaviour: 1, Stateful: true}}}
		v, err := savepoints.Judge(&h, []uint64{c.entries}, g, false)
		if errors.Is(err, savepoints.ErrDropsState) != (c.entries > 0) {
			t.Errorf("%s, %d entries: %v", c.kind, c.entries, err)
		}
		if len(v.Lines) != 1 || v.Lines[0].Fate != c.fate || !strings.Contains(v.Lines[0].Reason, `"size 1" became "size 2"`) ||
			strings.Contains(v.Lines[0].Reason, "open windows cannot be read") != c.windows {
			t.Errorf("%s, %d entries: %+v", c.kind, c.entries, v.Lines)
		}
	}
}

// evolved is an operator whose table is of version 3, and which reads version 2 too.
type evolved struct{ pipeline.Operator }

func (evolved) Open(t pipeline.Tables) error {
	_, err := t.Table(state.Spec{Name: "panes", Kind: state.Value, Type: "x", Version: 3})
	return err
}

func (evolved) Older(_ string, version uint16) func(key, sub, val []byte) error {
	if version != 2 {
		return nil
	}
	return func(_, _, _ []byte) error { return nil }
}

// TestVersionsOfState: state of an earlier version migrates when the operator reads it; what it does not read, or a newer build wrote, is refused before anything is touched.
func TestVersionsOfState(t *testing.T) {
	for _, c := range []struct {
		version uint64
		was     string
		fate    savepoints.Fate
		text    string
	}{
		{3, "", savepoints.Keep, ""},
		{2, "", savepoints.Migrate, "table panes goes from version 2 to 3"},
		{2, "old", savepoints.Migrate, "was old; table panes goes"},
		{1, "", savepoints.Incompatible, "does not read any more"},
		{4, "", savepoints.Incompatible, "written by a newer weir (format 4, this build reads up to 3)"},
	} {
		uid := "w"
		if c.was != "" {
			uid = c.was
		}
		h := savepoint.Head{
			Steps:  []savepoint.Step{{UID: uid, Kind: plan.KindWindow, Behaviour: 1, Stateful: true}},
			Tables: []savepoint.Table{{UID: uid, Name: "$clock", Type: "other", Version: 9}, {UID: uid, Name: "panes", Type: "x", Version: c.version}},
		}
		g := &plan.Graph{Steps: []*plan.Step{{UID: "w", Was: c.was, Kind: plan.KindWindow, Behaviour: 1, Stateful: true, New: func() pipeline.Operator { return evolved{} }}}}
		v, err := savepoints.Judge(&h, []uint64{1, 3}, g, false)
		if refused := c.fate == savepoints.Incompatible; errors.Is(err, savepoints.ErrDropsState) != refused {
			t.Errorf("version %d: %v", c.version, err)
		}
		if len(v.Lines) != 1 || v.Lines[0].Fate != c.fate || !strings.Contains(v.Lines[0].Reason, c.text) {
			t.Errorf("version %d: %+v", c.version, v.Lines)
		}
		if _, taken := v.Take(uid); taken == (c.fate == savepoints.Incompatible) {
			t.Errorf("version %d: taken is %v", c.version, taken)
		}
	}
}
