package mqtt

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

// TestFirstAnchorComesByLength: an agent to which nothing comes writes no anchor, which would bound nothing; on a long journal without one it is due at once.
func TestFirstAnchorComesByLength(t *testing.T) {
	for _, test := range []struct {
		held int // records of another session
		due  bool
	}{{0, false}, {1, false}, {99, false}, {100, true}, {250, true}} {
		t.Run(fmt.Sprint(test.held), func(t *testing.T) {
			j := newMemJournal()
			t.Cleanup(func() { j.die(errKilled) })
			for range test.held {
				if _, err := j.Append(&pipeline.Entry{Kind: pipeline.EntryTick}); err != nil {
					t.Fatal(err)
				}
			}
			if err := j.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
			s, err := NewSession(testConfig("mqtt://127.0.0.1:1", 2), j, slog.New(slog.DiscardHandler), Hooks{})
			if err != nil {
				t.Fatal(err)
			}
			s.anchors = anchorPolicy{records: 1 << 14, span: 100, perItem: 16}
			if err := Rebuild(j, s); err != nil {
				t.Fatal(err)
			}
			if _, err := j.Append(&pipeline.Entry{Kind: pipeline.EntryTick}); err != nil {
				t.Fatal(err)
			}
			s.mu.Lock()
			s.machine.phase = phaseReady
			due := s.anchorIsDue(j.Last())
			s.mu.Unlock()
			if due != test.due {
				t.Errorf("behind %d positions an anchor is due: %v", test.held, due)
			}
		})
	}
}
