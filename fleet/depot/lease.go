package depot

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/weirstream/weir/fleet/strict"
	"github.com/weirstream/weir/uplink/bucket"
)

// ErrLeased: somebody else acts on the channel at this moment.
var ErrLeased = errors.New("somebody else acts on this channel")

// leaseFor is how long a lease holds whose holder was killed, by the store's clock.
const leaseFor = 10 * time.Minute

const freeLease = "free "

// Lease keeps two that reconcile from doing the same work at once. Nothing rests on it: what is published is compared and swapped, and of two the second is refused there.
type Lease struct {
	depot         Depot
	name, version string
}

// Lease takes the channel's lease for whoever calls himself by. Errors: ErrLeased, with who has it.
func (d Depot) Lease(ctx context.Context, channel, by string) (*Lease, error) {
	name := leaseOf(channel)
	body, version, err := d.Bucket.Get(bucket.WithBytesMax(ctx, 1024), name)
	switch {
	case errors.Is(err, bucket.ErrNotFound):
	case err != nil:
		return nil, fmt.Errorf("lease of channel %s: %w", channel, err)
	case !strings.HasPrefix(string(body), freeLease):
		since, err := d.written(ctx, name)
		if err != nil && !errors.Is(err, bucket.ErrNotFound) {
			return nil, err
		}
		now, err := d.Now(ctx)
		if err != nil {
			return nil, err
		}
		if left := time.Duration(since-now)*time.Millisecond + leaseFor; left > 0 {
			holder, _, _ := strings.Cut(string(body), "\n")
			if strict.Name(holder) != nil {
				holder = "somebody without a name"
			}
			return nil, fmt.Errorf("channel %s: %w: %s, for another %s at most", channel, ErrLeased, holder, left.Round(time.Second))
		}
	}
	next, err := d.Bucket.Replace(ctx, name, version, []byte(by+"\n"+chance()+"\n"))
	if errors.Is(err, bucket.ErrChanged) {
		return nil, fmt.Errorf("channel %s: %w", channel, ErrLeased)
	}
	if err != nil {
		return nil, fmt.Errorf("lease of channel %s: %w", channel, err)
	}
	return &Lease{d, name, next}, nil
}

// Free gives it back. One that was lost to somebody else is no error.
func (l *Lease) Free(ctx context.Context) error {
	_, err := l.depot.Bucket.Replace(ctx, l.name, l.version, []byte(freeLease+chance()+"\n"))
	if errors.Is(err, bucket.ErrChanged) {
		return nil
	}
	return err
}

// chance makes each body another one: a version may be a digest of the body.
func chance() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
