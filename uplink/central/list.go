package central

import (
	"context"
	"crypto/ed25519"
	"fmt"

	"github.com/weirstream/weir/uplink/bucket"
)

// Listed is an uploaded pipeline.
type Listed struct {
	UUID     UUID
	Head     Head
	Manifest *Manifest // nil: Err
	Key      ed25519.PublicKey
	Err      error
}

// List tells which pipelines of the gateway were uploaded, by their heads.
func (f *Fetcher) List(ctx context.Context) (all []Listed, err error) {
	if err := f.ready(); err != nil {
		return nil, err
	}
	names := NamesOf(f.Gateway)
	err = bucket.Each(ctx, f.Bucket, names.All(KindHead), func(o bucket.Object) error {
		if n, err := Parse(o.Name); err == nil && n.Kind == KindHead {
			all = append(all, Listed{UUID: n.Pipeline})
		}
		if len(all) > headsMax {
			return fmt.Errorf("there are more than %d pipelines", headsMax)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list uploads of gateway %s: %w", f.Gateway, err)
	}
	for i := range all {
		l := &all[i]
		b, err := f.get(ctx, names.Head(l.UUID), smallBytesMax)
		if err != nil {
			l.Err = err
			continue
		}
		var sha SHA
		if l.Head, sha, _, l.Err = decodeHead(b); l.Err == nil {
			l.Manifest, l.Key, l.Err = f.manifest(ctx, l.UUID, sha)
		}
	}
	return all, nil
}
