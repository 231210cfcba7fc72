package journal

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// Retain says that holder needs the entries above pos: the position of its oldest retained checkpoint. It replaces what
// the holder said before. Holders are not kept on disk: each registers before the first Trim after a start.
func (j *Journal) Retain(holder string, pos pipeline.Position) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.holders[holder] = pos
}

// Release says that holder needs nothing any more.
func (j *Journal) Release(holder string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	delete(j.holders, holder)
}

// Trim recycles the segments that lie wholly below what every holder needs; with no holder it keeps everything. Checkpoints
// below are pruned durably before (RULES 12). Repeating it is harmless.
func (j *Journal) Trim(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	before, held := j.needed()
	if !held {
		return nil
	}
	return failure(j.log.Trim(uint64(before)))
}

// needed is the lowest position that a holder needs.
func (j *Journal) needed() (before pipeline.Position, held bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, pos := range j.holders {
		if !held || pos+1 < before {
			before, held = pos+1, true
		}
	}
	return before, held
}

// SetCarry sets f, called by Trim before segments with entries below a position are recycled: f adds again what the dedup tables still
// need of them. What it adds is durable before the recycle; add takes entries even when the journal is full. When f or add
// fails nothing is recycled.
func (j *Journal) SetCarry(f func(before pipeline.Position, add func(*pipeline.Entry) error) error) {
	j.log.SetBeforeRecycle(func(before uint64) error {
		if j.faults.carrySkipped {
			return nil
		}
		added := false
		err := f(pipeline.Position(before), func(e *pipeline.Entry) error {
			added = true
			var buf [headBytes]byte
			_, err := j.log.AppendReserved(appendHead(buf[:0], e), e.Topic, e.Payload)
			return err
		})
		if err != nil {
			return fmt.Errorf("carry entries: %w", err)
		}
		if !added || j.faults.carryNotSynced {
			return nil
		}
		ctx, cancel := context.WithTimeout(context.Background(), carryTimeout)
		defer cancel()
		return j.log.Sync(ctx)
	})
}
