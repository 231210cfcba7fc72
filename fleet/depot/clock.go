package depot

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/uplink/bucket"
)

// clockName is what the store's clock is read off. It has a folder of its own: where objects are files, a list looks at all that lie in one.
const clockName = Prefix + "clock/now"

// Now is the store's clock, Unix ms: it writes a small object and has the store say when. It is to be compared with the times of lists alone (bucket.Object.WrittenMs), never with
// another clock. S3 counts in whole seconds.
func (d Depot) Now(ctx context.Context) (int64, error) {
	if err := d.Bucket.Put(ctx, clockName, []byte("weir asks what time the store has\n")); err != nil {
		return 0, fmt.Errorf("ask for the store's clock: %w", err)
	}
	return d.written(ctx, clockName)
}

// written is when an object was written, by the store's clock.
func (d Depot) written(ctx context.Context, name string) (int64, error) {
	page, err := d.Bucket.List(ctx, name, "")
	if err != nil {
		return 0, fmt.Errorf("ask for the store's clock: %w", err)
	}
	for _, o := range page {
		if o.Name == name {
			return o.WrittenMs, nil
		}
	}
	return 0, fmt.Errorf("ask when %s was written: %w", name, bucket.ErrNotFound)
}
