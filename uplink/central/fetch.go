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
	// Told, if not nil, hears how many bytes of how many were read of the upload that is tried, each time that changes.
	Told func(done, all uint64)

	codec *Codec
	plant planted
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
	if p.SHA == (SHA{}) {
		return p.Err.Error()
	}
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

func (f *Fetcher) get(ctx context.Context, name string, bytesMax int64) (b []byte, err error) {
	ctx = bucket.WithBytesMax(ctx, bytesMax)
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

func (f *Fetcher) manifest(ctx context.Context, id UUID, sha SHA) (*Manifest, ed25519.PublicKey, error) {
	b, err := f.get(ctx, NamesOf(f.Gateway).Of(KindManifest, sha), manifestBytesMax)
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
	Newer      []PassedOver // uploads above it that no head names: see newer
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
			return f.finish(ctx, id, got, passed, err)
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
			return f.finish(ctx, id, got, passed, err)
		}
	}
	all := []error{fmt.Errorf("%w of gateway %s, pipeline %s", ErrNothing, f.Gateway, id)}
	for _, p := range passed {
		all = append(all, errors.New(p.String()))
	}
	return nil, errors.Join(all...)
}

func (f *Fetcher) finish(ctx context.Context, id UUID, got *Fetched, passed []PassedOver, err error) (*Fetched, error) {
	if err != nil {
		return nil, err
	}
	got.PassedOver = passed
	if got.Newer, err = f.newer(ctx, id, got); err != nil {
		return nil, err
	}
	return got, nil
}

// judged tells that an error is of what is in the store, not of the way there.
func judged(err error) bool {
	return damage(err) || errors.Is(err, ErrVersion) || errors.Is(err, ErrBroken)
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
	if err := checkRefs(refs); err != nil {
		return err
	}
	for _, r := range refs {
		all += r.Bytes
	}
	err = f.pieces(ctx, got, refs, func(i int, plain []byte) error {
		if got.Bytes += refs[i].Bytes; f.Told != nil {
			f.Told(got.Bytes, all)
		}
		if i > 0 {
			return nil
		}
		e := elements{b: plain}
		if got.Plan = e.bytes(); e.err != nil || len(e.b) > 0 {
			return fmt.Errorf("%w: plan", ErrDamaged)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return got.checkResults()
}

// chain gives all frames, oldest first.
func (f *Fetcher) chain(ctx context.Context, m *Manifest) ([]Frame, error) {
	parts := [][]Frame{m.Frames}
	n, refs := uint64(0), 0
	for at := m.Index; at != (SHA{}); {
		b, err := f.get(ctx, NamesOf(f.Gateway).Of(KindIndex, at), indexBytesMax)
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
		if refs += x.refs(); refs > refsTotalMax {
			return nil, fmt.Errorf("%w: index %s: more than %d references", ErrDamaged, at, refsTotalMax)
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
