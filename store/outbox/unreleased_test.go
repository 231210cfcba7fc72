package outbox

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
)

// TestFullOfUnreleasedResultsIsAnError: checkpoints fail while results are made. Waiting would never end, since the next barrier waits too.
func TestFullOfUnreleasedResultsIsAnError(t *testing.T) {
	c := Default()
	c.Log.SegmentBytes, c.Log.MaxBytes, c.Log.ReserveBytes, c.Log.Linger = 256<<10, 1<<20, 0, 0
	c.WindowBytes = 64 << 10
	o, _, err := Open(Options{FS: disk.OS, Dir: t.TempDir(), Config: c})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	o.stuckAfter = 50 * time.Millisecond
	s, err := o.Stream("k", StreamOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Cut(t.Context(), nil, Incarnation{Major: 1}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	x := uint64(1)
	for seq := uint64(1); seq <= 4000; seq++ {
		payload := make([]byte, 1024)
		for i := range payload {
			x = x*6364136223846793005 + 1442695040888963407
			payload[i] = byte(x >> 56)
		}
		if err := s.Emit(ctx, []pipeline.Result{{Seq: seq, Last: seq, Kind: pipeline.ResultData, Payload: payload}}); err != nil {
			if !errors.Is(err, ErrUnreleased) {
				t.Fatal(seq, err)
			}
			return
		}
	}
	t.Error("the log took more than it may hold")
}
