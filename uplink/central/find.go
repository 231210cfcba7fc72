package central

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/uplink/bucket"
)

// head gives the manifest that the head names; none when the head cannot be used.
func (f *Fetcher) head(ctx context.Context, id UUID, passed *[]PassedOver) (SHA, error) {
	b, err := f.get(ctx, NamesOf(f.Gateway).Head(id), smallBytesMax)
	if errors.Is(err, bucket.ErrNotFound) || errors.Is(err, bucket.ErrTooLarge) {
		*passed = append(*passed, PassedOver{Err: fmt.Errorf("the head: %w", err)})
		return SHA{}, nil
	}
	if err != nil {
		return SHA{}, fmt.Errorf("read head: %w", err)
	}
	_, sha, _, err := decodeHead(b)
	if errors.Is(err, ErrVersion) {
		return SHA{}, err
	}
	if err != nil {
		*passed = append(*passed, PassedOver{Err: fmt.Errorf("the head: %w", err)})
		return SHA{}, nil
	}
	return sha, nil
}

// newerMax bounds how many manifests newer looks at: an ordinary store has one, of an upload whose head was about to be moved.
const newerMax = 32

// errHeadless: whoever may write to the store can set a head back; a device that died, or a store that forgot its last write, leaves the same.
var errHeadless = errors.New("no head names it: its upload was about to end, the store forgot, or somebody set the head back")

// newer are the uploads with a higher number than got that the store wrote after it: a head that was set back shows by them, as long as they are there.
func (f *Fetcher) newer(ctx context.Context, id UUID, got *Fetched) (all []PassedOver, err error) {
	var later []bucket.Object
	since, dir := int64(0), NamesOf(f.Gateway).All(KindManifest)
	err = bucket.Each(ctx, f.Bucket, dir, func(o bucket.Object) error {
		if o.Name == NamesOf(f.Gateway).Of(KindManifest, got.SHA) {
			since = o.WrittenMs
			return nil
		}
		later = append(later, o)
		if len(later) > 2*listMax {
			later = newest(later)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list manifests: %w", err)
	}
	for _, o := range newest(later)[:min(len(later), newerMax)] {
		n, err := Parse(o.Name)
		if err != nil || o.WrittenMs < since || slices.ContainsFunc(got.PassedOver, func(p PassedOver) bool { return p.SHA == n.SHA }) {
			continue
		}
		m, _, err := f.manifest(ctx, id, n.SHA)
		if err != nil && !judged(err) {
			return nil, err
		}
		if err == nil && m.Order().Compare(got.Manifest.Order()) > 0 {
			all = append(all, PassedOver{SHA: n.SHA, Serial: m.Serial, TimeMs: m.CreatedMs, Err: errHeadless})
		}
	}
	return all, nil
}

// listMax bounds the names that are kept of a list: those that the store wrote last.
const listMax = 10_000

func newest(all []bucket.Object) []bucket.Object {
	slices.SortFunc(all, func(a, b bucket.Object) int {
		return cmp.Or(cmp.Compare(b.WrittenMs, a.WrittenMs), cmp.Compare(a.Name, b.Name))
	})
	return all[:min(len(all), listMax)]
}

// others are the manifests of the pipeline that the store lists, newest first, that were not tried.
func (f *Fetcher) others(ctx context.Context, id UUID, tried map[SHA]bool) ([]SHA, error) {
	type one struct {
		sha   SHA
		order Order
	}
	var listed []bucket.Object
	err := bucket.Each(ctx, f.Bucket, NamesOf(f.Gateway).All(KindManifest), func(o bucket.Object) error {
		if listed = append(listed, o); len(listed) > 2*listMax {
			listed = newest(listed)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list manifests: %w", err)
	}
	var all []one
	for _, o := range newest(listed) {
		n, err := Parse(o.Name)
		if err != nil || tried[n.SHA] {
			continue
		}
		m, _, err := f.manifest(ctx, id, n.SHA)
		if err == nil {
			all = append(all, one{n.SHA, m.Order()})
		} else if !judged(err) {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b one) int { return b.order.Compare(a.order) })
	var list []SHA
	for _, o := range all {
		list = append(list, o.sha)
	}
	return list, nil
}
