package savepoints

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/snapshot/savepoint"
)

// Survey describes what a savepoint of a running pipeline would hold now, and how many entries each table has, for Judge. It makes a checkpoint, and no file.
func Survey(ctx context.Context, r Running) (*savepoint.Head, []uint64, error) {
	c, release, err := r.Hold(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("look into the state: %w", err)
	}
	defer release()
	state, err := r.Store.Load(c.Manifest)
	if err != nil {
		return nil, nil, fmt.Errorf("look into checkpoint %d: %w", c.ID, err)
	}
	h := stateOf(r.About, c.Manifest, r.Graph)
	counts := make([]uint64, len(h.Tables))
	for i, t := range h.Tables {
		_, _, err := state.Entries(t.UID, t.Name, func([]byte, []byte, []byte) error { counts[i]++; return ctx.Err() })
		if err != nil {
			return nil, nil, fmt.Errorf("look into checkpoint %d: %w", c.ID, err)
		}
	}
	return &h, counts, nil
}
