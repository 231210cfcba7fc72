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

const (
	// suspectsMax is how many candidates are kept in memory; more of them wait for a later collection.
	suspectsMax = 100_000
	// headsMax is how many pipelines a gateway can have had. Each of their manifests is read.
	headsMax = 4096
)

// marked are the names that must stay, with their sizes; -1: not known.
type marked map[string]int64

// add marks objects.
func (m marked) add(names Names, refs []Ref) error {
	for _, r := range refs {
		m[names.Of(KindObject, r.SHA)] = int64(r.Bytes)
	}
	if len(m) > refsTotalMax {
		return fmt.Errorf("the store's uploads have more than %d objects", refsTotalMax)
	}
	return nil
}

// marks are what the retained uploads need: of the pipelines that are uploaded here, and of others that the gateway had.
type marks struct{ own, others marked }

func (m *marks) keeps(name string) bool {
	_, own := m.own[name]
	_, other := m.others[name]
	return own || other
}

// collect deletes what no retained upload needs: marked first, and seen twice (FORMAT.md).
func (u *Uploader) collect(ctx context.Context) error {
	u.oldest = map[string]uint64{}
	keep, err := u.mark(ctx)
	if err != nil {
		return err
	}
	now, err := u.storeNow(ctx)
	if err != nil || now == math.MinInt64 {
		return err
	}
	young := now - graceMs
	if u.plant.young {
		young = math.MaxInt64
	}
	missing := marks{maps.Clone(keep.own), maps.Clone(keep.others)}
	u.protect(keep.own)
	suspects := map[string]int64{}
	for _, k := range []Kind{KindObject, KindIndex, KindManifest} {
		err := u.each(ctx, u.names.All(k), func(o bucket.Object) error {
			missing.own.found(o)
			missing.others.found(o)
			n, err := Parse(o.Name)
			ours := err == nil && n.Kind == k
			if ours && !keep.keeps(o.Name) && o.WrittenMs <= young && len(suspects) < suspectsMax {
				suspects[o.Name] = o.WrittenMs
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("list %ss: %w", k, err)
		}
	}
	doomed, err := u.oldRecords(ctx, young, suspects)
	if err != nil {
		return err
	}
	if !u.plant.collectDeaf {
		if name, ok := missing.own.any(); ok {
			return u.broken(fmt.Errorf("%w: %s is gone, or torn", ErrBroken, name))
		}
		if name, ok := missing.others.any(); ok {
			return fmt.Errorf("%s is gone, or torn, and an upload of a pipeline that is not in the config needs it; weir central ls and rm", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(suspects)) {
		if at, ok := u.suspects[name]; ok && at == suspects[name] || u.plant.once {
			doomed = append(doomed, name)
			delete(suspects, name)
		}
	}
	u.suspects = suspects
	return u.delete(ctx, doomed)
}

// oldRecords are shipped records that lie below what every retained upload of their journal stands at: no head goes back behind one. Those of a journal that no
// upload is of become suspects.
func (u *Uploader) oldRecords(ctx context.Context, young int64, suspects map[string]int64) (doomed []string, err error) {
	err = u.each(ctx, u.names.All(KindRecords), func(o bucket.Object) error {
		n, err := Parse(o.Name)
		if err != nil {
			return nil
		}
		switch oldest, held := u.oldest[n.Journal]; {
		case len(doomed)+len(suspects) >= suspectsMax:
		case !held && o.WrittenMs <= young:
			suspects[o.Name] = o.WrittenMs
		case held && (n.Last <= oldest || u.plant.keepNone):
			doomed = append(doomed, o.Name)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list shipped records: %w", err)
	}
	return doomed, nil
}

// found takes an object that is there off.
func (m marked) found(o bucket.Object) {
	if size, ok := m[o.Name]; ok && (size < 0 || size == o.Bytes) {
		delete(m, o.Name)
	}
}

// any is the first name.
func (m marked) any() (string, bool) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		return name, true
	}
	return "", false
}

// storeNow is when the newest confirmed manifest was written, by the store's clock; the least number: there is none.
func (u *Uploader) storeNow(ctx context.Context) (now int64, err error) {
	newest := map[string]bool{}
	for _, p := range u.pipelines() {
		newest[p.newest()] = true
	}
	now = math.MinInt64
	err = u.each(ctx, u.names.All(KindManifest), func(o bucket.Object) error {
		if newest[o.Name] {
			now = max(now, o.WrittenMs)
		}
		return nil
	})
	if err != nil {
		return now, fmt.Errorf("list manifests: %w", err)
	}
	return now, nil
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
func (u *Uploader) mark(ctx context.Context) (*marks, error) {
	keep := &marks{marked{}, marked{}}
	own := map[UUID]*Pipeline{}
	for _, p := range u.pipelines() {
		own[p.id] = p
	}
	var heads []Name
	err := u.each(ctx, u.names.All(KindHead), func(o bucket.Object) error {
		if n, err := Parse(o.Name); err == nil && n.Kind == KindHead {
			heads = append(heads, n)
		}
		if len(heads) > headsMax {
			return fmt.Errorf("there are more than %d", headsMax)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list heads: %w", err)
	}
	for _, n := range heads {
		p := own[n.Pipeline]
		if p != nil {
			err = u.markOwn(ctx, keep.own, p)
		} else if err = u.markOther(ctx, keep.others, n.Pipeline); err != nil {
			err = fmt.Errorf("pipeline %s, which is not in the config: %w; weir central rm %s lets it go", n.Pipeline, err, n.Pipeline)
		}
		if err != nil {
			return nil, err
		}
	}
	return keep, nil
}

// markOwn marks the uploads of a pipeline. When they are not whole, new bases follow.
func (u *Uploader) markOwn(ctx context.Context, keep marked, p *Pipeline) error {
	sha, err := u.headSHA(ctx, p.id)
	if err != nil {
		return fmt.Errorf("pipeline %s: %w", p.name, err)
	}
	if !p.noted(sha) {
		return fmt.Errorf("the head of pipeline %s is not the one that was confirmed", p.name)
	}
	if err := u.markUploads(ctx, keep, p.id, sha); err != nil {
		return u.broken(err)
	}
	return nil
}

// markOther marks the uploads of a pipeline that is not uploaded here. Nobody makes them whole again.
func (u *Uploader) markOther(ctx context.Context, keep marked, id UUID) error {
	sha, err := u.headSHA(ctx, id)
	if err != nil {
		return err
	}
	return u.markUploads(ctx, keep, id, sha)
}

func (u *Uploader) headSHA(ctx context.Context, id UUID) (SHA, error) {
	b, err := u.get(ctx, KindHead, u.names.Head(id), 0)
	if err != nil {
		return SHA{}, fmt.Errorf("read head: %w", err)
	}
	_, sha, _, err := decodeHead(b)
	return sha, err
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
		m, size, err := u.readManifest(ctx, id, sha)
		if n > 0 && (errors.Is(err, bucket.ErrNotFound) || errors.Is(err, ErrDamaged)) {
			u.log.Warn("central store: an older upload is not whole any more", "pipeline", id.String(), "manifest", sha.String(), "error", err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("manifest %s: %w", sha, err)
		}
		keep[u.names.Of(KindManifest, sha)] = size
		if at, held := u.oldest[m.Journal]; !held || m.Position < at {
			u.oldest[m.Journal] = m.Position
		}
		if err := keep.add(u.names, m.refs()); err != nil {
			return err
		}
		if u.plant.collectDeaf {
			return nil
		}
		if err := u.markIndexes(ctx, keep, m.Index); err != nil {
			return err
		}
		sha = m.Previous
	}
	return nil
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

func (u *Uploader) markIndexes(ctx context.Context, keep marked, at SHA) error {
	for n := 0; at != (SHA{}); n++ {
		name := u.names.Of(KindIndex, at)
		if _, ok := keep[name]; ok { // and so is all that it names
			return nil
		}
		if n > framesMax {
			return fmt.Errorf("%w: more than %d indexes", ErrDamaged, framesMax)
		}
		b, err := u.get(ctx, KindIndex, name, usualBytes)
		if err != nil {
			return fmt.Errorf("index %s: %w", at, err)
		}
		x, err := decodeIndex(b, at)
		if err != nil {
			return fmt.Errorf("index %s: %w", at, err)
		}
		keep[name] = int64(len(b))
		for _, f := range x.Frames {
			if err := keep.add(u.names, f.Refs); err != nil {
				return err
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
	err := keep.add(u.names, last.refs())
	if err == nil {
		err = u.markIndexes(ctx, keep, last.Index)
	}
	if errors.Is(err, bucket.ErrNotFound) || errors.Is(err, ErrDamaged) {
		return outDiffers, err
	}
	if err != nil {
		return outFailed, err
	}
	for _, k := range []Kind{KindObject, KindIndex, KindManifest} {
		err := u.each(ctx, u.names.All(k), func(o bucket.Object) error {
			keep.found(o)
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
