package agent

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/outbox"
)

// durably is what the sealer needs of the journal.
type durably interface {
	Durable() pipeline.Position
	Sync(ctx context.Context) error
}

// sealer gives the coordinator the outbox in its own terms. It comes first in the order of a commit, and so keeps the other thing that
// must come first: a checkpoint never stands on records that a power cut may take, since their positions would be given out again (RULES 8).
type sealer struct {
	*outbox.Outbox
	journal durably
	hasty   bool // planted by a test: it does not wait for the journal
}

// Seal makes the journal durable up to the barrier, and then the results.
func (s sealer) Seal(ctx context.Context, b pipeline.Barrier) ([]snapshot.OutboxRange, error) {
	if s.journal.Durable() < b.Position && !s.hasty { // only where the pipeline reads ahead of the sync
		if err := s.journal.Sync(ctx); err != nil {
			return nil, fmt.Errorf("sync journal up to barrier %d: %w", b.ID, err)
		}
	}
	ranges, err := s.Outbox.Seal(ctx, b)
	list := make([]snapshot.OutboxRange, len(ranges))
	for i, r := range ranges {
		list[i] = snapshot.OutboxRange{UID: r.UID, Generation: r.Generation, Confirmed: r.Confirmed, Last: r.Last, Chain: r.ChainConfirmed}
	}
	return list, err
}
