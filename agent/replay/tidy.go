package replay

import (
	"context"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
)

// barrierRecords is how many records lie between two barriers. Deleted state is freed by a checkpoint only: without any, a replay would keep
// something of every window that ever was. A barrier costs some microseconds and the state's changes are not copied.
const barrierRecords = 64 << 10

// tidy puts barriers into a replay, for checkpoints that nobody keeps. Where they come does not show in the results.
type tidy struct {
	every    int
	due      chan struct{} // one waits at most: a second would come at the same place
	read     int
	barriers uint64 // put in; to be read when run has returned
}

func newTidy(every int) *tidy { return &tidy{every: every, due: make(chan struct{}, 1)} }

// count tells how many records were read; the journal's reader calls it.
func (t *tidy) count(records int) {
	if t.read += records; t.read < t.every {
		return
	}
	t.read = 0
	select {
	case t.due <- struct{}{}:
	default:
	}
}

// run puts the barriers in until the pipeline or ctx ends.
func (t *tidy) run(ctx context.Context, p *exec.Pipeline) {
	for {
		select {
		case <-t.due:
		case <-ctx.Done():
			return
		}
		if p.Inject(ctx, t.barriers+1) != nil {
			return // it has ended
		}
		t.barriers++
	}
}

// forget ends a checkpoint as if it were durable.
func forget(s pipeline.TaskSnapshot) {
	for _, part := range s.Parts {
		part.Frozen.Commit()
	}
}
