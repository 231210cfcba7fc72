package central

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/uplink/bucket"
)

// usualBytes is what manifests and indexes seldom exceed.
const usualBytes = 64 << 10

// get reads an object of a kind, in the time that one of size bytes takes. One that is larger than any of its kind is damaged.
func (u *Uploader) get(ctx context.Context, k Kind, name string, size int) (b []byte, err error) {
	err = u.within(ctx, size, func(ctx context.Context) (err error) {
		b, _, err = u.config.Bucket.Get(bucket.WithBytesMax(ctx, bytesMaxOf(k)), name)
		return err
	})
	if errors.Is(err, bucket.ErrTooLarge) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return b, err
}

// each lists page by page, each page within the time of a request.
func (u *Uploader) each(ctx context.Context, prefix string, f func(bucket.Object) error) error {
	for after := ""; ; {
		var page []bucket.Object
		err := u.within(ctx, 256, func(ctx context.Context) (err error) {
			page, err = u.config.Bucket.List(ctx, prefix, after)
			return err
		})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, o := range page {
			if err := f(o); err != nil {
				return err
			}
		}
		last := page[len(page)-1].Name
		if last <= after {
			return fmt.Errorf("list %s: the store lists %q behind %q", prefix, last, after)
		}
		after = last
	}
}

func (u *Uploader) headSHA(ctx context.Context, id UUID) (SHA, error) {
	b, err := u.get(ctx, KindHead, u.names.Head(id), 0)
	if err != nil {
		return SHA{}, fmt.Errorf("read head: %w", err)
	}
	_, sha, _, err := decodeHead(b)
	return sha, err
}

func (u *Uploader) readManifest(ctx context.Context, id UUID, sha SHA) (*Manifest, int64, error) {
	b, err := u.get(ctx, KindManifest, u.names.Of(KindManifest, sha), usualBytes)
	if err != nil {
		return nil, 0, err
	}
	if err := check(b, sha); err != nil {
		return nil, 0, err
	}
	m, _, err := signed(u.codec, b, nil, &u.plant)
	if err != nil {
		return nil, 0, err
	}
	return m, int64(len(b)), m.bound(u.config.Gateway, id)
}
