// Package central keeps the checkpoints of a gateway off the device: in S3 or a directory, so that another device can go on where this one died.
//
// An Uploader has one goroutine, Run, for all pipelines. What is uploaded lies on the device first (Cut), so that it survives a restart and neither processing nor
// commits wait for a link. It is content-addressed, read back, described by a signed manifest, and named by a head that only moves forward; what no head needs is
// collected. Fetch reads it, checks every byte, and falls back to an older upload where one is damaged. FORMAT.md has the objects, the order and what happens
// at each crash; nothing here knows snapshots, files or the engine.
package central

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/bucket"
)

// Config of an Uploader. Gateway, Bucket and Key are required.
type Config struct {
	Gateway string
	Bucket  bucket.Bucket
	Key     ed25519.PrivateKey
	// RebaseRatio: a new base is uploaded when the deltas have so many times its size. Uploaded are then 1 + 1/ratio times what changed.
	RebaseRatio float64
	// Retained is how many of a pipeline's newest uploads are kept.
	Retained int
	// Seal encrypts pieces; nil: they are readable.
	Seal Seal
	// Pace returns when n bytes may be sent; nil: at once.
	Pace func(ctx context.Context, n int) error
	// Fenced gives ErrFenced when another device writes for this gateway, and any other error when that is not known now. nil: never.
	Fenced func(ctx context.Context) error
	// Backoff spaces the tries after a failure.
	Backoff uplink.Backoff
	// Timeout is how long a small request may take; larger ones have longer: TimeoutPerKiB more.
	Timeout, TimeoutPerKiB time.Duration
	// CollectEvery: after so many uploads the store is collected. The first time after one upload.
	CollectEvery int
	// Sleep waits; nil: the clock. It returns ctx.Err() when ctx ends first.
	Sleep  func(ctx context.Context, d time.Duration) error
	Logger *slog.Logger
}

// Default has no gateway, bucket and key.
func Default() Config {
	return Config{RebaseRatio: 6, Retained: 2, Backoff: uplink.Backoff{Min: time.Second, Max: 5 * time.Minute}, Timeout: 30 * time.Second,
		TimeoutPerKiB: time.Second, CollectEvery: 16}
}

// Validate names the first field that is out of range.
func (c *Config) Validate() error {
	switch {
	case c.Gateway == "" || c.Bucket == nil:
		return errors.New("central store needs a gateway and a bucket")
	case len(c.Key) != ed25519.PrivateKeySize:
		return errors.New("central store needs a key to sign with")
	case c.RebaseRatio < 1 || c.RebaseRatio > 1000:
		return fmt.Errorf("central rebase ratio is %g, allowed is 1 to 1000", c.RebaseRatio)
	case c.Retained < 1:
		return fmt.Errorf("central retained is %d, allowed is 1 or more", c.Retained)
	case c.Timeout <= 0 || c.CollectEvery < 1:
		return errors.New("central timeout and collect every are more than 0")
	}
	return c.Backoff.Validate()
}

// Uploader brings the checkpoints of a gateway's pipelines into a bucket. Its Run owns what has no comment of its own.
type Uploader struct {
	config Config
	names  Names
	codec  *Codec
	log    *slog.Logger
	woken  chan struct{} // holds one token: a pipeline has something to upload

	mu    sync.Mutex // guards pipes
	pipes []*Pipeline

	fenced     atomic.Bool
	why        atomic.Value // error: of the fence
	prepared   bool
	uploads    int
	collects   bool
	recollects bool              // the last collection failed: it comes again with the next upload
	oldest     map[string]uint64 // by journal: the lowest position of a retained upload, as the collection under way has found it
	suspects   map[string]int64  // what was a candidate at the last collection, and when it was written

	collected atomic.Uint64
	plant     planted
}

// New checks the config. It starts nothing and asks nobody.
func New(c Config) (*Uploader, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	codec, err := NewCodec()
	if err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Uploader{config: c, names: NamesOf(c.Gateway), codec: codec, log: c.Logger, woken: make(chan struct{}, 1), plant: built()}, nil
}

// pause waits behind a failure, or until another pipeline has something to upload: what holds up the one need not hold up the other.
func (u *Uploader) pause(ctx context.Context, d time.Duration) error {
	if u.config.Sleep != nil {
		return u.config.Sleep(ctx, d)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-u.woken:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// Add makes a pipeline known, with what its spool holds. Each pipeline is added once.
func (u *Uploader) Add(id UUID, name string, s Spool) (*Pipeline, error) {
	rec, err := readRecord(s, u.codec, u.config.Key)
	if err != nil {
		return nil, fmt.Errorf("central store: pipeline %s: %w", name, err)
	}
	p := &Pipeline{u: u, id: id, name: name, spool: s, rec: rec, fresh: math.MaxInt}
	if rec.Draft != nil && rec.Draft.M.UUID != id || rec.last() != nil && rec.last().bound(u.config.Gateway, id) != nil {
		p.rec = &record{WantBase: "the notes on the device are of another gateway or pipeline"}
	}
	if p.rec.WantBase != "" && rec.last() == nil {
		u.log.Warn("central store: a new base follows", "pipeline", name, "why", p.rec.WantBase)
	}
	if err := clean(s, p.needed()); err != nil {
		return nil, fmt.Errorf("central store: pipeline %s: %w", name, err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pipes = append(u.pipes, p)
	u.wake()
	return p, nil
}

// Remove ends the uploads of a pipeline: nothing is begun for it any more. Its spool and what is in the store stay as they are. Repeating it is harmless.
func (u *Uploader) Remove(p *Pipeline) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.pipes = slices.DeleteFunc(slices.Clone(u.pipes), func(o *Pipeline) bool { return o == p }) // Run may look at the list
}

func (u *Uploader) pipelines() []*Pipeline {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.pipes
}

func (u *Uploader) wake() {
	select {
	case u.woken <- struct{}{}:
	default:
	}
}

func (u *Uploader) isFenced() bool { return u.fenced.Load() }

// Collected is how many objects were deleted.
func (u *Uploader) Collected() uint64 { return u.collected.Load() }

// Fence tells why nothing is uploaded any more; nil: it is.
func (u *Uploader) Fence() error {
	if !u.isFenced() {
		return nil
	}
	err, _ := u.why.Load().(error)
	return err
}

// Run uploads until ctx ends, whatever fails. It is called once.
func (u *Uploader) Run(ctx context.Context) {
	for ctx.Err() == nil {
		busy, err := u.round(ctx)
		switch {
		case ctx.Err() != nil || errors.Is(err, errStop):
			return
		case err != nil:
			if u.pause(ctx, u.config.Backoff.Delay(u.leastFails()-1, rand.Float64())) != nil {
				return
			}
		case !busy:
			select {
			case <-u.woken:
			case <-ctx.Done():
			}
		}
	}
}

// errStop ends Run: the process that a test lets die.
var errStop = errors.New("stopped")

// leastFails is how often the pipeline failed that fares best: whoever waits, waits for that.
func (u *Uploader) leastFails() int {
	least := math.MaxInt
	for _, p := range u.pipelines() {
		if p.tries.fails > 0 {
			least = min(least, p.tries.fails)
		}
	}
	return least
}

// round does one step of every pipeline, so that a large base holds up none of the others. An error says that none got on: it is time to wait. One that fails while others get on is left out of more and
// more rounds.
func (u *Uploader) round(ctx context.Context) (busy bool, err error) {
	if u.isFenced() {
		return false, nil
	}
	stepped, gotOn := false, false
	var failed, resting []*Pipeline
	for _, p := range u.pipelines() {
		if !p.due() {
			continue
		}
		busy = true
		if p.tries.rest > 0 {
			p.tries.rest--
			resting = append(resting, p)
			continue
		}
		at, serr := p.place(), u.prepare(ctx)
		if serr == nil {
			serr = u.step(ctx, p)
		}
		p.told(serr)
		switch {
		case serr == nil:
			stepped, gotOn = true, p.tries.succeed(at) || gotOn
		case ctx.Err() == nil:
			p.tries.fail(at)
			failed, err = append(failed, p), errors.Join(err, serr)
			u.log.Warn("central store: upload waits", "pipeline", p.name, "error", serr)
		}
	}
	switch {
	case gotOn:
		for _, p := range failed {
			p.tries.leaveOut()
		}
		err = nil
	case len(failed) == 0 && !stepped: // only those that rest are left
		for _, p := range resting {
			p.tries.rest = 0
		}
	}
	if err == nil && u.collects && !u.isFenced() {
		busy, u.collects = true, false
		cerr := u.collect(ctx)
		if u.recollects = cerr != nil && !errors.Is(cerr, ErrBroken); cerr != nil && ctx.Err() == nil { // uploads do not wait for it
			u.log.Warn("central store: nothing was collected; it is tried again behind the next upload", "error", cerr)
		}
	}
	return busy, err
}

// place is the step that the pipeline waits for.
func (p *Pipeline) place() progress {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.at
}

// prepare asks the store once whether it honours conditions.
func (u *Uploader) prepare(ctx context.Context) error {
	if u.prepared {
		return nil
	}
	err := u.within(ctx, 0, func(ctx context.Context) error { return u.config.Bucket.Prepare(ctx, u.names.Dir()) })
	u.prepared = err == nil
	return err
}

// within bounds a request that moves n bytes.
func (u *Uploader) within(ctx context.Context, n int, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, u.config.Timeout+time.Duration(n>>10)*u.config.TimeoutPerKiB)
	defer cancel()
	return f(ctx)
}

// stopUploads keeps the fence in mind.
func (u *Uploader) stopUploads(why error) {
	if !u.fenced.Load() {
		u.why.Store(why)
		u.fenced.Store(true)
		u.log.Error("central store: this device is fenced: nothing is uploaded any more", "error", why)
	}
}
