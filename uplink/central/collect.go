package central

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/weirstream/weir/uplink/bucket"
)

// graceMs is how old an object must be, by the store's clock, before it is collected: longer than any put takes.
const graceMs = int64(24 * time.Hour / time.Millisecond)

// deleteMax is how many objects a request deletes: few enough to be quick, and the claim is asked before each.
const deleteMax = 500

// marked are the names that must stay, with their sizes; -1: not known.
type marked map[string]int64

// collect deletes what no retained upload needs: marked first, and seen twice (FORMAT.md).
func (u *Uploader) collect(ctx context.Context) error {
	u.oldest = map[string]uint64{}
	keep, err := u.mark(ctx)
	if err != nil {
		return err
	}
	all := map[string]bucket.Object{}
	for _, k := range []Kind{KindObject, KindIndex, KindManifest} {
		err := u.each(ctx, u.names.All(k), func(o bucket.Object) error {
			all[o.Name] = o
			return nil
		})
		if err != nil {
			return fmt.Errorf("list %ss: %w", k, err)
		}
	}
	var doomed []string // records that lie below what every retained upload of their journal stands at: no head goes back behind one
	err = u.each(ctx, u.names.All(KindRecords), func(o bucket.Object) error {
		n, err := Parse(o.Name)
		if err != nil {
			return nil
		}
		switch oldest, held := u.oldest[n.Journal]; {
		case !held: // of a journal that is gone
			all[o.Name] = o
		case n.Last <= oldest || u.plant.keepNone:
			doomed = append(doomed, o.Name)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list shipped records: %w", err)
	}
	for name, size := range keep {
		if o, ok := all[name]; !u.plant.collectDeaf && (!ok || size >= 0 && o.Bytes != size) {
			return u.broken(fmt.Errorf("%w: %s is gone, or torn", ErrBroken, name))
		}
	}
	now := int64(math.MinInt64) // when the newest confirmed manifest was written, by the store's clock
	for _, p := range u.pipelines() {
		if o, ok := all[p.newest()]; ok {
			now = max(now, o.WrittenMs)
		}
	}
	if now == math.MinInt64 {
		return nil
	}
	u.protect(keep)
	suspects := map[string]int64{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		o := all[name]
		if _, ok := keep[name]; ok {
			continue
		}
		if n, err := Parse(name); err != nil || n.Kind == KindClaim || n.Kind == KindHead { // not ours
			continue
		}
		if !u.plant.once && o.WrittenMs > now-graceMs {
			continue
		}
		if at, ok := u.suspects[name]; ok && at == o.WrittenMs || u.plant.once {
			doomed = append(doomed, name)
			continue
		}
		suspects[name] = o.WrittenMs
	}
	u.suspects = suspects
	return u.delete(ctx, doomed)
}

func (u *Uploader) delete(ctx context.Context, doomed []string) error {
	for some := range slices.Chunk(doomed, deleteMax) {
		switch o, err := u.askClaim(ctx); {
		case o == outFenced:
			u.stopUploads(err)
			return err
		case err != nil:
			return err
		}
		if err := u.within(ctx, 0, func(ctx context.Context) error { return u.config.Bucket.Delete(ctx, some...) }); err != nil {
			return fmt.Errorf("delete what no upload needs: %w", err)
		}
		u.collected.Add(uint64(len(some)))
	}
	if len(doomed) > 0 {
		u.log.Info("central store: collected", "objects", len(doomed))
	}
	return nil
}

// protect marks what uploads under way put.
func (u *Uploader) protect(keep marked) {
	for _, p := range u.pipelines() {
		p.mu.Lock()
		for _, s := range p.objects() {
			keep[u.names.Of(s.kind, s.sha)] = -1
		}
		p.mu.Unlock()
	}
}

// mark gives the names of all that the retained uploads of every pipeline of the gateway need.
func (u *Uploader) mark(ctx context.Context) (marked, error) {
	keep := marked{}
	own := map[UUID]*Pipeline{}
	for _, p := range u.pipelines() {
		own[p.id] = p
	}
	var heads []Name
	err := u.each(ctx, u.names.All(KindHead), func(o bucket.Object) error {
		if n, err := Parse(o.Name); err == nil {
			heads = append(heads, n)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list heads: %w", err)
	}
	for _, n := range heads {
		b, err := u.get(ctx, u.names.Head(n.Pipeline), 0)
		if err != nil {
			return nil, fmt.Errorf("read head: %w", err)
		}
		_, sha, _, err := decodeHead(b)
		if err != nil {
			return nil, fmt.Errorf("head of %s: %w", n.Pipeline, err)
		}
		if p := own[n.Pipeline]; p != nil && !p.noted(sha) {
			return nil, fmt.Errorf("the head of pipeline %s is not the one that was confirmed", p.name)
		}
		if err := u.markUploads(ctx, keep, n.Pipeline, sha); err != nil {
			return nil, err
		}
	}
	return keep, nil
}

// noted says whether a manifest is the newest that was confirmed; a pipeline that has not uploaded with these notes has no say.
func (p *Pipeline) noted(sha SHA) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rec.last() == nil || p.rec.LastSHA == sha
}

// newest is the name of the newest confirmed manifest.
func (p *Pipeline) newest() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.u.names.Of(KindManifest, p.rec.LastSHA)
}

// markUploads marks the newest uploads of a pipeline. The newest one must be whole; of those before it, what is there.
func (u *Uploader) markUploads(ctx context.Context, keep marked, id UUID, sha SHA) error {
	for n := 0; n < u.config.Retained && sha != (SHA{}); n++ {
		b, err := u.get(ctx, u.names.Of(KindManifest, sha), 0)
		if err == nil {
			err = check(b, sha)
		}
		var m *Manifest
		if err == nil {
			m, _, err = signed(u.codec, b, nil, &u.plant)
		}
		if err == nil {
			err = m.bound(u.config.Gateway, id)
		}
		if n > 0 && (errors.Is(err, bucket.ErrNotFound) || errors.Is(err, ErrDamaged)) {
			u.log.Warn("central store: an older upload is not whole any more", "pipeline", id.String(), "manifest", sha.String(), "error", err)
			return nil
		}
		if err != nil {
			return u.broken(fmt.Errorf("manifest %s: %w", sha, err))
		}
		keep[u.names.Of(KindManifest, sha)] = int64(len(b))
		if at, held := u.oldest[m.Journal]; !held || m.Position < at {
			u.oldest[m.Journal] = m.Position
		}
		for _, r := range m.refs() {
			keep[u.names.Of(KindObject, r.SHA)] = int64(r.Bytes)
		}
		if u.plant.collectDeaf {
			return nil
		}
		if err := u.markIndexes(ctx, keep, m.Index); err != nil {
			return u.broken(err)
		}
		sha = m.Previous
	}
	return nil
}

func (u *Uploader) markIndexes(ctx context.Context, keep marked, at SHA) error {
	for at != (SHA{}) {
		name := u.names.Of(KindIndex, at)
		if _, ok := keep[name]; ok { // and so is all that it names
			return nil
		}
		b, err := u.get(ctx, name, 0)
		if err != nil {
			return fmt.Errorf("index %s: %w", at, err)
		}
		x, err := decodeIndex(b, at)
		if err != nil {
			return fmt.Errorf("index %s: %w", at, err)
		}
		keep[name] = int64(len(b))
		for _, f := range x.Frames {
			for _, r := range f.Refs {
				keep[u.names.Of(KindObject, r.SHA)] = int64(r.Bytes)
			}
		}
		at = SHA{}
		copy(at[:], x.Before)
	}
	return nil
}

// broken has every pipeline make a new base when what the store has is not whole: which of them is hit is seldom worth asking.
func (u *Uploader) broken(err error) error {
	if !errors.Is(err, ErrBroken) && !errors.Is(err, ErrDamaged) && !errors.Is(err, bucket.ErrNotFound) {
		return err
	}
	u.log.Error("central store: an uploaded checkpoint is not whole any more; new bases follow", "error", err)
	for _, p := range u.pipelines() {
		err = errors.Join(err, p.giveUp("the store lost a part of the chain"))
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// compareChain says whether all that the newest confirmed manifest needs is in the store.
func (u *Uploader) compareChain(ctx context.Context, p *Pipeline) (outcome, error) {
	p.mu.Lock()
	last, sha := p.rec.last(), p.rec.LastSHA
	p.mu.Unlock()
	keep := marked{u.names.Of(KindManifest, sha): -1}
	for _, r := range last.refs() {
		keep[u.names.Of(KindObject, r.SHA)] = int64(r.Bytes)
	}
	err := u.markIndexes(ctx, keep, last.Index)
	if errors.Is(err, bucket.ErrNotFound) || errors.Is(err, ErrDamaged) {
		return outDiffers, err
	}
	if err != nil {
		return outFailed, err
	}
	for _, k := range []Kind{KindObject, KindIndex, KindManifest} {
		err := u.each(ctx, u.names.All(k), func(o bucket.Object) error {
			if size, ok := keep[o.Name]; ok && (size < 0 || size == o.Bytes) {
				delete(keep, o.Name)
			}
			return nil
		})
		if err != nil {
			return outFailed, err
		}
	}
	if len(keep) > 0 {
		return outDiffers, fmt.Errorf("%w: %d objects are gone or torn", ErrBroken, len(keep))
	}
	return outDone, nil
}

func (u *Uploader) get(ctx context.Context, name string, n int) (b []byte, err error) {
	err = u.within(ctx, n, func(ctx context.Context) (err error) {
		b, _, err = u.config.Bucket.Get(ctx, name)
		return err
	})
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
		after = page[len(page)-1].Name
	}
}
