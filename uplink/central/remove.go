package central

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/uplink/bucket"
)

// Remove lets a pipeline's uploads go: its head is removed, durably, and what only it needed is collected by the gateway's device, a day later. A device that has the pipeline in its config uploads all of the
// state anew. A repeat is harmless.
func Remove(ctx context.Context, b bucket.Bucket, gateway string, id UUID) error {
	if err := b.Delete(ctx, NamesOf(gateway).Head(id)); err != nil {
		return fmt.Errorf("remove the head of pipeline %s: %w", id, err)
	}
	return nil
}
