package central

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/uplink/bucket"
)

// due says whether there is something to do.
func (p *Pipeline) due() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rec.Draft != nil
}

func (p *Pipeline) told(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err = ""; err != nil {
		p.err = err.Error()
	}
}

// needed are the spool's files that the upload under way needs.
func (p *Pipeline) needed() map[string]bool {
	all := map[string]bool{}
	for _, s := range p.objects() {
		all[spoolName(s.kind, s.sha)] = true
	}
	return all
}

// objects are what the upload under way puts, in order: pieces, index, manifest. What an earlier upload brought is not among them. mu is held, or the pipeline
// not yet known to others.
func (p *Pipeline) objects() (all []stored) {
	d := p.rec.Draft
	if d == nil {
		return nil
	}
	there := map[SHA]bool{}
	if last := p.rec.last(); last != nil {
		for _, r := range last.refs() {
			there[r.SHA] = true
		}
	}
	for _, r := range d.M.refs() {
		if !there[r.SHA] {
			all = append(all, stored{KindObject, r.SHA, r.Bytes})
		}
	}
	if p.rec.Built == (SHA{}) {
		return all
	}
	b, err := p.spool.Read(spoolName(KindManifest, p.rec.Built))
	if err != nil || check(b, p.rec.Built) != nil {
		p.rec.Built = SHA{} // it is made again
		return all
	}
	if m, _, err := signed(p.u.codec, b, nil, &planted{}); err == nil && m.Index != (SHA{}) && (p.rec.last() == nil || m.Index != p.rec.last().Index) {
		if x, err := p.spool.Read(spoolName(KindIndex, m.Index)); err == nil {
			all = append(all, stored{KindIndex, m.Index, uint64(len(x))})
		}
	}
	return append(all, stored{KindManifest, p.rec.Built, uint64(len(b))})
}

// step does what the upload waits for, and moves it on. An error says why it did not move.
func (u *Uploader) step(ctx context.Context, p *Pipeline) error {
	p.mu.Lock()
	if p.todo == nil {
		p.todo = p.objects()
	}
	at := p.at
	p.mu.Unlock()
	o, err := u.do(ctx, p, at)
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.phase == phasePut {
		p.fresh = max(p.fresh, at.at+1)
	}
	f := facts{objects: len(p.todo), built: p.rec.Built != SHA{}, fresh: p.fresh, plant: &u.plant}
	p.at = next(at, f, o)
	if p.at.phase == phaseFenced {
		u.stopUploads(err)
	}
	if o == outDone || o == outOurs || o == outLast || errors.Is(err, errDiffers) && at.phase == phaseLook {
		return nil
	}
	return err
}

// errDiffers says that an object is not there, or not whole.
var errDiffers = errors.New("object is not in the store, or not whole")

// do carries one step out.
func (u *Uploader) do(ctx context.Context, p *Pipeline, at progress) (outcome, error) {
	switch at.phase {
	case phaseHead, phaseConfirm:
		return u.readHead(ctx, p)
	case phaseChain:
		return u.compareChain(ctx, p)
	case phaseBuild:
		return outcomeOf(p.build())
	case phaseLook, phaseCheck:
		return u.readBack(ctx, p, p.todo[at.at])
	case phasePut:
		return u.put(ctx, p, p.todo[at.at])
	case phaseClaim:
		return u.askClaim(ctx)
	case phaseMove:
		return u.moveHead(ctx, p)
	case phaseNote:
		return outcomeOf(u.noteDone(p))
	case phaseDrop:
		return outcomeOf(p.drop("the head was changed by another writer, or the store lost what it had"))
	}
	return outDone, nil
}

func outcomeOf(err error) (outcome, error) {
	if err != nil {
		return outFailed, err
	}
	return outDone, nil
}

// readHead finds out where the store stands.
func (u *Uploader) readHead(ctx context.Context, p *Pipeline) (outcome, error) {
	var b []byte
	var version string
	err := u.within(ctx, 0, func(ctx context.Context) (err error) {
		b, version, err = u.config.Bucket.Get(bucket.WithBytesMax(ctx, smallBytesMax), u.names.Head(p.id))
		return err
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.headAt, p.headSeen, p.headSHA = version, Order{}, SHA{}
	switch {
	case errors.Is(err, bucket.ErrNotFound):
		p.headAt = ""
	case errors.Is(err, bucket.ErrTooLarge): // no version is known to replace it by
		return outFailed, fmt.Errorf("read head: %w: it was not written by a device: remove it (weir central rm %s)", err, p.id)
	case err != nil:
		return outFailed, fmt.Errorf("read head: %w", err)
	default:
		if _, p.headSHA, p.headSeen, err = decodeHead(b); errors.Is(err, ErrVersion) {
			return outFailed, err
		} else if err != nil {
			u.log.Error("central store: the head is damaged and is replaced", "pipeline", p.name, "error", err)
		}
	}
	return p.relate()
}

// relate judges the head that was read. mu is held.
func (p *Pipeline) relate() (outcome, error) {
	d, last := p.rec.Draft, p.rec.last()
	mine := Order{d.M.Major, d.M.Minor, 0}
	known := p.rec.Floor
	if last != nil {
		known = max(known, last.Serial)
	}
	if p.headSeen.Serial > known && p.headSeen.Serial-known > serialJump {
		p.u.log.Error("central store: the head has a number that no device has counted up to; it is replaced", "pipeline", p.name, "there", p.headSeen.Serial, "known", known)
		p.headSeen, p.headSHA = Order{}, SHA{}
	}
	seen := p.headSeen
	seen.Serial = 0
	switch {
	case p.rec.Built != SHA{} && p.headSHA == p.rec.Built:
		return outOurs, nil
	case seen.Compare(mine) > 0:
		return outFenced, fmt.Errorf("%w: the head of pipeline %s is of incarnation %d.%d, this device is %d.%d", ErrFenced, p.name, seen.Major, seen.Minor, d.M.Major, d.M.Minor)
	case p.headSHA == p.rec.LastSHA:
		return outLast, nil
	}
	behind := last != nil && p.headSeen.Compare(last.Order()) < 0
	if behind {
		p.u.log.Error("central store: it has forgotten an upload that it had confirmed", "pipeline", p.name, "confirmed", last.Serial, "there", p.headSeen.Serial)
	}
	switch {
	case d.Base && p.rec.Built == SHA{}: // it needs nothing of what is there
		p.rec.Floor = max(p.rec.Floor, p.headSeen.Serial)
		return outLast, nil
	case d.Base && behind:
		return outLast, nil
	case behind:
		return outOlder, nil
	}
	p.rec.Floor = max(p.rec.Floor, p.headSeen.Serial)
	return outNewer, fmt.Errorf("the head of pipeline %s was moved on to serial %d by another writer of this incarnation", p.name, p.headSeen.Serial)
}

// build makes the manifest of the draft, and the index when the one before is full.
func (p *Pipeline) build() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	d, last := p.rec.Draft, p.rec.last()
	m := d.M
	m.Serial = p.rec.Floor + 1
	if last != nil {
		m.Serial, m.Previous = max(m.Serial, last.Serial+1), p.rec.LastSHA
	} else if p.headSHA != (SHA{}) {
		m.Previous = p.headSHA
	}
	m.Frames = nil
	for _, f := range d.M.Frames {
		f.Serial = m.Serial
		m.Frames = append(m.Frames, f)
		if d.Base {
			m.BaseBytes += f.bytes()
		} else {
			m.DeltaBytes += f.bytes()
		}
	}
	if !d.Base {
		m.Index, m.Indexed, m.BaseBytes = last.Index, last.Indexed, last.BaseBytes
		m.DeltaBytes += last.DeltaBytes
		m.Frames = append(append([]Frame(nil), last.Frames...), m.Frames...)
	}
	if err := p.roll(&m); err != nil {
		return err
	}
	b, sha, err := m.encode(p.u.codec, p.u.config.Key)
	if err != nil {
		return err
	}
	if err := p.spool.Write(spoolName(KindManifest, sha), b); err != nil {
		return fmt.Errorf("keep manifest: %w", err)
	}
	p.rec.Built = sha
	if err := p.note(); err != nil {
		p.rec.Built = SHA{}
		return err
	}
	p.todo = p.objects()
	return nil
}

// roll moves the frames of a manifest with many references into an index.
func (p *Pipeline) roll(m *Manifest) error {
	refs := 0
	for _, f := range m.Frames {
		refs += len(f.Refs)
	}
	if refs <= refsMax {
		return nil
	}
	x := index{Frames: m.Frames}
	if m.Index != (SHA{}) {
		x.Before = m.Index[:]
	}
	b, sha, err := x.encode(m.Upload)
	if err != nil {
		return err
	}
	if err := p.spool.Write(spoolName(KindIndex, sha), b); err != nil {
		return fmt.Errorf("keep index: %w", err)
	}
	m.Index, m.Indexed, m.Frames = sha, m.Indexed+uint64(len(m.Frames)), nil
	return nil
}

// put puts an object, as it lies in the spool.
func (u *Uploader) put(ctx context.Context, p *Pipeline, s stored) (outcome, error) {
	b, err := p.spool.Read(spoolName(s.kind, s.sha))
	if err == nil {
		err = check(b, s.sha)
	}
	if err != nil {
		err = fmt.Errorf("read what is to be uploaded: %w", err)
		return outFailed, errors.Join(err, p.drop("what was to be uploaded is damaged on the device"))
	}
	if u.config.Pace != nil {
		if err := u.config.Pace(ctx, len(b)); err != nil {
			return outFailed, err
		}
	}
	p.mu.Lock()
	p.sent += uint64(len(b))
	p.mu.Unlock()
	return outcomeOf(u.within(ctx, len(b), func(ctx context.Context) error { return u.config.Bucket.Put(ctx, u.names.Of(s.kind, s.sha), b) }))
}

// readBack says whether an object is in the store, whole.
func (u *Uploader) readBack(ctx context.Context, p *Pipeline, s stored) (outcome, error) {
	var b []byte
	err := u.within(ctx, int(s.bytes), func(ctx context.Context) (err error) {
		b, _, err = u.config.Bucket.Get(bucket.WithBytesMax(ctx, int64(s.bytes)), u.names.Of(s.kind, s.sha))
		return err
	})
	switch {
	case errors.Is(err, bucket.ErrNotFound):
		return outDiffers, fmt.Errorf("%w: %s", errDiffers, u.names.Of(s.kind, s.sha))
	case errors.Is(err, bucket.ErrTooLarge): // it is not what its name says
		return outDiffers, fmt.Errorf("%w: %w", errDiffers, err)
	case err != nil:
		return outFailed, err
	}
	if err := check(b, s.sha); err != nil {
		return outDiffers, fmt.Errorf("%w: %s: %w", errDiffers, u.names.Of(s.kind, s.sha), err)
	}
	return outDone, nil
}

func (u *Uploader) askClaim(ctx context.Context) (outcome, error) {
	if u.config.Fenced == nil || u.plant.fenceless {
		return outDone, nil
	}
	err := u.within(ctx, 0, u.config.Fenced)
	switch {
	case errors.Is(err, ErrFenced):
		return outFenced, err
	case err != nil:
		return outFailed, fmt.Errorf("ask who writes for this gateway: %w", err)
	}
	return outDone, nil
}

func (u *Uploader) moveHead(ctx context.Context, p *Pipeline) (outcome, error) {
	p.mu.Lock()
	version, sha := p.headAt, p.rec.Built
	p.mu.Unlock()
	b, err := p.spool.Read(spoolName(KindManifest, sha))
	if err != nil {
		return outFailed, fmt.Errorf("read manifest: %w", err)
	}
	m, _, err := signed(u.codec, b, nil, &planted{})
	if err != nil {
		return outFailed, err
	}
	body, err := headOf(m, sha).encode()
	if err != nil {
		return outFailed, err
	}
	err = u.within(ctx, 0, func(ctx context.Context) error {
		_, err := u.config.Bucket.Replace(ctx, u.names.Head(p.id), version, body)
		return err
	})
	if errors.Is(err, bucket.ErrChanged) {
		return outChanged, err
	}
	return outcomeOf(err)
}

// noteDone notes that the upload is in the store, and lets go of the device's copies.
func (u *Uploader) noteDone(p *Pipeline) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.rec.Draft
	b, err := p.spool.Read(spoolName(KindManifest, p.rec.Built))
	if err != nil {
		return fmt.Errorf("read manifest: %w", err)
	}
	m, _, err := signed(u.codec, b, nil, &planted{})
	if err != nil {
		return err
	}
	before := *p.rec
	p.rec.Last, p.rec.LastSHA, p.rec.lastParse, p.rec.PlanSum = bytes.Clone(b), p.rec.Built, m, d.PlanSum
	p.rec.Draft, p.rec.Built, p.rec.UploadMs = nil, SHA{}, time.Now().UnixMilli()
	if d.Base {
		p.rec.WantBase = ""
	}
	if err := p.note(); err != nil {
		*p.rec = before
		return err
	}
	p.todo, p.done, p.asOf = nil, p.done+1, p.draftAt
	if u.uploads++; u.uploads%u.config.CollectEvery == 1 || u.config.CollectEvery == 1 || u.recollects {
		u.collects = true
	}
	u.log.Debug("checkpoint uploaded", "pipeline", p.name, "serial", m.Serial, "checkpoint", m.Checkpoint, "position", m.Position, "base", d.Base)
	return clean(p.spool, nil)
}

// drop gives the upload up: a new base is wanted.
func (p *Pipeline) drop(why string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rec.Draft, p.rec.Built, p.rec.WantBase, p.todo = nil, SHA{}, why, nil
	p.u.log.Error("central store: upload given up, a new base follows", "pipeline", p.name, "why", why)
	if err := p.note(); err != nil {
		return err
	}
	return clean(p.spool, nil)
}
