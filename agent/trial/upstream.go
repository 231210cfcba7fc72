package trial

import (
	"context"
	"fmt"
	"sync"

	"github.com/weirstream/weir/pipeline"
)

// upstream holds what every sink delivered, and keeps it over crashes as a real one does: a sequence that it has is compared
// and dropped, one that leaves a hole is a loss.
type upstream struct {
	mu    sync.Mutex
	sinks map[string]*held
}

type held struct {
	up    *upstream
	uid   string
	rows  [][]byte
	wrong string
}

func newUpstream() *upstream { return &upstream{sinks: map[string]*held{}} }

func (u *upstream) sink(uid string) (pipeline.ResultSink, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sinks[uid] == nil {
		u.sinks[uid] = &held{up: u, uid: uid}
	}
	return u.sinks[uid], nil
}

func (h *held) Emit(_ context.Context, results []pipeline.Result) error {
	h.up.mu.Lock()
	defer h.up.mu.Unlock()
	for _, r := range results {
		have := uint64(len(h.rows))
		switch {
		case h.wrong != "":
		case r.Seq == have+1:
			h.rows = append(h.rows, r.Payload)
		case r.Seq > have+1:
			h.wrong = fmt.Sprintf("result %d came after %d: results are lost", r.Seq, have)
		case string(h.rows[r.Seq-1]) != string(r.Payload):
			h.wrong = fmt.Sprintf("result %d differs after a restart\n  first %s\n  then  %s", r.Seq, h.rows[r.Seq-1], r.Payload)
		}
	}
	return nil
}

func (h *held) Barrier(context.Context, pipeline.Barrier) error { return nil }

// differences compares what a disturbed run delivered with the undisturbed one; "" when they are equal.
func (u *upstream) differences(right *upstream) string {
	for uid, want := range right.sinks {
		got := u.sinks[uid]
		switch {
		case got == nil:
			return fmt.Sprintf("sink %s: nothing came", uid)
		case got.wrong != "":
			return fmt.Sprintf("sink %s: %s", uid, got.wrong)
		case len(got.rows) != len(want.rows):
			return fmt.Sprintf("sink %s: %d results with crashes, %d without", uid, len(got.rows), len(want.rows))
		}
		for i := range want.rows {
			if string(got.rows[i]) != string(want.rows[i]) {
				return fmt.Sprintf("sink %s, result %d\n  with crashes %s\n  without      %s", uid, i+1, got.rows[i], want.rows[i])
			}
		}
	}
	return ""
}
