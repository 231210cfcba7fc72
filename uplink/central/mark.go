package central

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weirstream/weir/uplink/bucket"
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
	if u.plant.ownAlone {
		own := maps.Clone(u.oldest)
		defer func() { u.oldest = own }()
	}
	return u.markUploads(ctx, keep, id, sha)
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
