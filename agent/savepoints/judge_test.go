package savepoints_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/pipeline/plan"
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
