package central

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/uplink/bucket"
)

// Fetcher reads what was uploaded. It writes nothing into the bucket.
type Fetcher struct {
	Gateway string
	Bucket  bucket.Bucket
	// Trust are the keys whose signatures count; nil: any key. Then only what the store itself says is checked.
	Trust Trust
	// Unseal opens encrypted pieces; nil: there are none.
	Unseal Unseal
	// Least is the lowest serial that is fetched: whoever writes to the store cannot go back behind what is known to have been there.
	Least uint64
	// Timeout is how long a request may take. 0: as long as ctx lasts.
	Timeout time.Duration
	// Told, if not nil, hears how many bytes of how many were read.
	Told func(done, all uint64)

	codec *Codec
	plant planted
}

// Listed is an uploaded pipeline.
type Listed struct {
	UUID     UUID
	Head     Head
	Manifest *Manifest // nil: Err
	Key      ed25519.PublicKey
	Err      error
}

// PassedOver is an upload that was not fetched though it is newer, or the same.
type PassedOver struct {
	SHA    SHA
	Serial uint64 // 0: not known
	TimeMs int64
	Err    error
}

// String is a line for an operator.
func (p PassedOver) String() string {
	if p.Serial == 0 {
		return fmt.Sprintf("manifest %s: %v", p.SHA, p.Err)
	}
	return fmt.Sprintf("upload %d of %s: %v", p.Serial, time.UnixMilli(p.TimeMs).UTC().Format(time.RFC3339), p.Err)
}

func (f *Fetcher) ready() (err error) {
	if f.codec == nil {
		f.codec, err = NewCodec()
	}
	return err
}

func (f *Fetcher) get(ctx context.Context, name string) (b []byte, err error) {
	if f.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.Timeout)
		defer cancel()
	}
	b, _, err = f.Bucket.Get(ctx, name)
	if errors.Is(err, bucket.ErrNotFound) {
		return nil, fmt.Errorf("object %s is missing in the store: %w", name, bucket.ErrNotFound)
	}
	return b, err
}

// List tells which pipelines of the gateway were uploaded, by their heads.
func (f *Fetcher) List(ctx context.Context) (all []Listed, err error) {
	if err := f.ready(); err != nil {
		return nil, err
	}
	names := NamesOf(f.Gateway)
	err = bucket.Each(ctx, f.Bucket, names.All(KindHead), func(o bucket.Object) error {
		if n, err := Parse(o.Name); err == nil {
			all = append(all, Listed{UUID: n.Pipeline})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list uploads of gateway %s: %w", f.Gateway, err)
	}
	for i := range all {
		l := &all[i]
		b, err := f.get(ctx, names.Head(l.UUID))
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

func (f *Fetcher) manifest(ctx context.Context, id UUID, sha SHA) (*Manifest, ed25519.PublicKey, error) {
	b, err := f.get(ctx, NamesOf(f.Gateway).Of(KindManifest, sha))
	if err != nil {
		return nil, nil, err
	}
	if err := check(b, sha); err != nil {
		return nil, nil, err
	}
	m, key, err := signed(f.codec, b, f.Trust, &f.plant)
	if err != nil {
		return nil, key, err
	}
	if err := m.bound(f.Gateway, id); err != nil {
		return nil, key, err
	}
	return m, key, nil
}

// Fetched is an uploaded checkpoint whose every byte was checked. Its pieces lie in the scratch spool.
type Fetched struct {
	Manifest   *Manifest
	SHA        SHA
	Key        ed25519.PublicKey
	Plan       []byte
	PassedOver []PassedOver // newer uploads that could not be fetched, newest first: what they had is lost
	Bytes      uint64       // read from the store, as stored

	frames  []Frame // oldest first
	scratch Spool
	codec   *Codec
	unseal  Unseal
}

// Fetch brings the newest upload of a pipeline that is whole into scratch. What is in scratch already and whole is not read again. It returns ErrNothing, with every reason,
// when none is; an error of the link is returned as it is: trying again goes on where it was.
func (f *Fetcher) Fetch(ctx context.Context, id UUID, scratch Spool) (*Fetched, error) {
	if err := f.ready(); err != nil {
		return nil, err
	}
	var passed []PassedOver
	tried := map[SHA]bool{}
	next, err := f.head(ctx, id, &passed)
	if err != nil {
		return nil, err
	}
	for next != (SHA{}) && !tried[next] {
		tried[next] = true
		got, before, err := f.try(ctx, id, next, scratch, &passed)
		if got != nil || err != nil {
			return finish(got, passed), err
		}
		next = before
	}
	// The chain of manifests breaks here: whatever else the store has.
	rest, err := f.others(ctx, id, tried)
	if err != nil {
		return nil, err
	}
	for _, sha := range rest {
		got, _, err := f.try(ctx, id, sha, scratch, &passed)
		if got != nil || err != nil {
			return finish(got, passed), err
		}
	}
	all := []error{fmt.Errorf("%w of gateway %s, pipeline %s", ErrNothing, f.Gateway, id)}
	for _, p := range passed {
		all = append(all, errors.New(p.String()))
	}
	return nil, errors.Join(all...)
}

func finish(got *Fetched, passed []PassedOver) *Fetched {
	if got != nil {
		got.PassedOver = passed
	}
	return got
}

// head gives the manifest that the head names; none when the head cannot be used.
func (f *Fetcher) head(ctx context.Context, id UUID, passed *[]PassedOver) (SHA, error) {
	b, err := f.get(ctx, NamesOf(f.Gateway).Head(id))
	if errors.Is(err, bucket.ErrNotFound) {
		*passed = append(*passed, PassedOver{Err: err})
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
		*passed = append(*passed, PassedOver{Err: err})
		return SHA{}, nil
	}
	return sha, nil
}

// damage says that an error is the store's: an older upload may do.
func damage(err error) bool {
	for _, e := range []error{bucket.ErrNotFound, bucket.ErrTooLarge, ErrDamaged, ErrSignature, ErrForeign, ErrOld} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// try fetches one upload. Where the store has damaged it, it gives the one before.
func (f *Fetcher) try(ctx context.Context, id UUID, sha SHA, scratch Spool, passed *[]PassedOver) (got *Fetched, before SHA, err error) {
	p := PassedOver{SHA: sha}
	m, key, err := f.manifest(ctx, id, sha)
	if err == nil {
		p.Serial, p.TimeMs, before = m.Serial, m.CreatedMs, m.Previous
		got = &Fetched{Manifest: m, SHA: sha, Key: key, scratch: scratch, codec: f.codec, unseal: f.Unseal}
		if m.Serial < f.Least {
			err = fmt.Errorf("%w: upload %d, at least %d is wanted", ErrOld, m.Serial, f.Least)
		} else {
			err = f.fill(ctx, got)
		}
	}
	if err == nil {
		return got, before, nil
	}
	if p.Err = err; !damage(err) {
		return nil, before, fmt.Errorf("fetch upload %s: %w", sha, err)
	}
	*passed = append(*passed, p)
	return nil, before, nil
}

// others are the manifests of the pipeline that the store lists, newest first, that were not tried.
func (f *Fetcher) others(ctx context.Context, id UUID, tried map[SHA]bool) ([]SHA, error) {
	type one struct {
		sha   SHA
		order Order
	}
	var all []one
	err := bucket.Each(ctx, f.Bucket, NamesOf(f.Gateway).All(KindManifest), func(o bucket.Object) error {
		n, err := Parse(o.Name)
		if err != nil || tried[n.SHA] {
			return nil
		}
		m, _, err := f.manifest(ctx, id, n.SHA)
		if err == nil {
			all = append(all, one{n.SHA, m.Order()})
		} else if !damage(err) && !errors.Is(err, ErrVersion) {
			return err
		}
		return nil
	})
	slices.SortFunc(all, func(a, b one) int { return b.order.Compare(a.order) })
	var list []SHA
	for _, o := range all {
		list = append(list, o.sha)
	}
	return list, err
}

// fill reads every object of an upload into scratch, checked, and reads each piece through.
func (f *Fetcher) fill(ctx context.Context, got *Fetched) error {
	frames, err := f.chain(ctx, got.Manifest)
	if err != nil {
		return err
	}
	got.frames = frames
	all := uint64(0)
	refs := got.Manifest.refs()[:1]
	for _, s := range got.Manifest.Sinks {
		for _, p := range s.Parts {
			refs = append(refs, p.Ref)
		}
	}
	for _, x := range frames {
		refs = append(refs, x.Refs...)
	}
	for _, r := range refs {
		all += r.Bytes
	}
	for _, r := range refs {
		plain, err := f.piece(ctx, got, r)
		if err != nil {
			return err
		}
		if got.Bytes += r.Bytes; f.Told != nil {
			f.Told(got.Bytes, all)
		}
		if r == got.Manifest.Plan {
			e := elements{b: plain}
			if got.Plan = e.bytes(); e.err != nil || len(e.b) > 0 {
				return fmt.Errorf("%w: plan", ErrDamaged)
			}
		}
	}
	return got.checkResults()
}

// piece gives the content of a piece, from scratch or the store.
func (f *Fetcher) piece(ctx context.Context, got *Fetched, r Ref) ([]byte, error) {
	name := spoolName(KindObject, r.SHA)
	if b, err := got.scratch.Read(name); err == nil {
		if plain, err := got.codec.open(b, r, got.unseal); err == nil {
			return plain, nil
		}
	}
	b, err := f.get(ctx, NamesOf(f.Gateway).Of(KindObject, r.SHA))
	if err != nil {
		return nil, err
	}
	plain, err := got.codec.open(b, r, got.unseal)
	if err != nil {
		return nil, fmt.Errorf("object %s: %w", NamesOf(f.Gateway).Of(KindObject, r.SHA), err)
	}
	if err := got.scratch.Write(name, b); err != nil {
		return nil, fmt.Errorf("keep what was fetched: %w", err)
	}
	return plain, nil
}

// chain gives all frames, oldest first.
func (f *Fetcher) chain(ctx context.Context, m *Manifest) ([]Frame, error) {
	parts := [][]Frame{m.Frames}
	n := uint64(0)
	for at := m.Index; at != (SHA{}); {
		b, err := f.get(ctx, NamesOf(f.Gateway).Of(KindIndex, at))
		if err != nil {
			return nil, err
		}
		x, err := decodeIndex(b, at)
		if err != nil {
			return nil, fmt.Errorf("index %s: %w", at, err)
		}
		if n += uint64(len(x.Frames)); n > m.Indexed || len(x.Frames) == 0 {
			return nil, fmt.Errorf("%w: index %s: more frames than the manifest says", ErrDamaged, at)
		}
		parts = append(parts, x.Frames)
		at = SHA{}
		copy(at[:], x.Before)
	}
	if n != m.Indexed {
		return nil, fmt.Errorf("%w: %d frames in indexes, the manifest says %d", ErrDamaged, n, m.Indexed)
	}
	slices.Reverse(parts)
	return slices.Concat(parts...), nil
}
