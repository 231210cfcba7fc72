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
