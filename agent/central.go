//go:build !nocentral

package agent

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/central"
)

// offsites are the agent's uploads to the central store.
type offsites struct {
	pace     func(ctx context.Context, bytes int) error // of all that goes over central.link, within central.bandwidth
	uploader *central.Uploader
	bucket   bucket.Bucket
	interval time.Duration
	public   string
	shipping *shipping // nil: no records are shipped

	mu    sync.Mutex
	pipes map[snapshot.UUID]*offsitePipe
}

// offsitePipe is one pipeline of them. One attempt at a time uses it; mu guards the fields below it.
type offsitePipe struct {
	*central.Pipeline

	mu    sync.Mutex
	taken time.Time // when a checkpoint was last handed over, or found unchanged
	bytes uint64    // the coordinator's count of bytes then
	let   bool      // the changes since then are not kept any more
	err   string
}

// openCentral makes the uploads of the config's central store, if there is one.
func (a *Agent) openCentral() error {
	c := &a.config.Central
	if c.URL.Value == "" {
		return nil
	}
	key, err := offsite.SigningKey(a.config)
	if err != nil {
		return err
	}
	b, err := offsite.OpenCentral(a.config, a.clock.Wall)
	if err != nil {
		return err
	}
	o := &offsites{bucket: b, interval: c.Interval, public: central.FormatPublic(key.Public().(ed25519.PublicKey)), pipes: map[snapshot.UUID]*offsitePipe{}}
	a.offsites = o
	u := central.Default()
	u.Gateway, u.Bucket, u.Key, u.RebaseRatio, u.Retained, u.Timeout, u.Logger = a.gateway(), b, key, c.RebaseRatio, c.Retained, c.Timeout, a.log
	u.Fenced = a.uploadFence
	o.pace = pacer(c, func() *uplink.Link { return a.roster.Load().ways[c.Link.Value] }) // an apply may change the link
	u.Pace = o.pace
	if len(c.Recipients) > 0 {
		var list []string
		for _, r := range c.Recipients {
			list = append(list, r.Value)
		}
		if u.Seal, err = central.SealTo(list); err != nil {
			return err
		}
	}
	if o.uploader, err = central.New(u); err != nil {
		return err
	}
	o.shipping = a.newShipping()
	return nil
}

// enlist gives a pipeline its place in the central store; one that has it keeps it. A nil receiver has none to give.
func (o *offsites) enlist(id snapshot.UUID, name, stateDir string) error {
	if o == nil || o.pipe(id) != nil {
		return nil
	}
	spool, err := offsite.OpenSpool(disk.OS, filepath.Join(stateDir, "central", id.String()))
	if err != nil {
		return err
	}
	p, err := o.uploader.Add(central.UUID(id), name, spool)
	if err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.pipes[id] = &offsitePipe{Pipeline: p}
	return nil
}

// strike takes the places of pipelines that are not registered any more: what was on its way goes no further, what is in the store stays there for who takes this device's place. No attempt
// of them may run. A nil receiver has none.
func (o *offsites) strike(r *statedir.Registry) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, p := range o.pipes {
		if !r.Holds(id) {
			o.uploader.Remove(p.Pipeline)
			delete(o.pipes, id)
		}
	}
}

// pipe is a pipeline's place; nil: it has none.
func (o *offsites) pipe(id snapshot.UUID) *offsitePipe {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.pipes[id]
}

// run uploads until ctx ends. A nil one has nothing to upload.
func (o *offsites) run(ctx context.Context) error {
	if o == nil {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { o.uploader.Run(ctx); return nil })
	group.Go(func() error { return o.shipping.run(ctx) })
	return group.Wait()
}

func (o *offsites) close() error {
	if o == nil {
		return nil
	}
	return o.bucket.Close()
}

// pacer is the bandwidth of the setting, and the link's.
func pacer(c *config.Central, way func() *uplink.Link) func(ctx context.Context, n int) error {
	var own *uplink.Limiter
	if c.Bandwidth > 0 {
		own = uplink.NewLimiter(int(min(c.Bandwidth, 1<<30)))
	}
	return func(ctx context.Context, n int) error {
		if err := way().Pass(ctx, n, uplink.PriorityLow); err != nil {
			return err
		}
		return own.Wait(ctx, n, uplink.PriorityLow)
	}
}

// offsite is the pipeline's place in the central store; nil: there is none.
func (a *attempt) offsite() *offsitePipe {
	return a.agent.offsites.pipe(a.id)
}

// keepFrom is the checkpoint since which changes are kept from the start on.
func (a *attempt) keepFrom() uint64 {
	if p := a.offsite(); p != nil {
		return p.Keep()
	}
	return 0
}

const (
	// keepCheckpointsMax and keepBytesMin bound what the store keeps for an upload that does not come to its end: behind them, or behind the size of the state, the changes are
	// let go, and the next upload is all of the state.
	keepCheckpointsMax = 400
	keepBytesMin       = 32 << 20
	// offsiteLook is how often it is looked whether an upload has ended.
	offsiteLook = 5 * time.Second
)

// runOffsite hands the newest checkpoint to the uploads, at most every interval. Nothing that fails here ends the pipeline.
func (a *attempt) runOffsite(ctx context.Context, p *offsitePipe) error {
	interval := a.agent.offsites.interval
	t := time.NewTimer(p.due(interval))
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
		if p.due(interval) == 0 && (a.agent.options.hasty || !a.held.holds()) { // a plan on probation may be gone back from (RULES 25): what another device would go on with is of committed plans
			a.takeOffsite(ctx, p)
		}
		a.boundOffsite(p)
		t.Reset(max(min(p.due(interval), offsiteLook), min(interval, offsiteLook)/10))
	}
}

// due is how long to wait until the next checkpoint is handed over.
func (p *offsitePipe) due(interval time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken.IsZero() {
		return 0
	}
	return max(time.Until(p.taken.Add(interval)), 0)
}

func (a *attempt) takeOffsite(ctx context.Context, p *offsitePipe) {
	if _, free := p.Wanted(central.SHA{}, 0); !free {
		return // looked at again soon
	}
	_, err := offsite.Take(ctx, p.Pipeline, offsite.Running{
		Hold: a.coordinator.Hold, KeepFrom: a.coordinator.KeepFrom, Store: a.store, Outbox: a.outbox, Graph: a.graph,
		About: savepoint.Head{Writer: Version(), Gateway: a.agent.gateway(), Pipeline: a.spec.Name.Value, Journal: a.agent.registry.Journal, ElapsedNs: a.agent.clock.Elapsed()},
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken, p.err = time.Now(), ""
	if err != nil {
		if ctx.Err() == nil {
			p.err = err.Error()
			a.log.Warn("central store: no checkpoint for upload", "error", err)
		}
		return
	}
	p.bytes, p.let = a.coordinator.Metrics().FrameBytes, false
}

// uploads tells whether there is a central store.
func (a *Agent) uploads() bool { return a.offsites != nil }

// uploadLast hands over all that the pipeline has, where it stands: it has stopped reading. The uploads go on without it.
func (a *attempt) uploadLast(ctx context.Context) error {
	p := a.offsite()
	if p == nil {
		return errors.New("there is no central store to upload to")
	}
	tick := time.NewTicker(offsiteLook / 50)
	defer tick.Stop()
	for {
		if _, free := p.Wanted(central.SHA{}, 0); free {
			break
		}
		select { // one is under way
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	a.takeOffsite(ctx, p)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != "" {
		return fmt.Errorf("central store: %s", p.err)
	}
	return ctx.Err()
}

// boundOffsite lets changes go that are kept for too long.
func (a *attempt) boundOffsite(p *offsitePipe) {
	m, keep := a.coordinator.Metrics(), p.Keep()
	p.mu.Lock()
	defer p.mu.Unlock()
	if keep == 0 || p.let || m.LastID < keep+keepCheckpointsMax && m.FrameBytes-min(p.bytes, m.FrameBytes) < max(keepBytesMin, 2*m.BaseBytes) {
		return
	}
	p.let = true
	a.coordinator.KeepFrom(0)
	a.log.Warn("central store: uploads are far behind; the changes are not kept any longer, all of the state follows", "uploaded", keep, "checkpoint", m.LastID)
	if err := p.Forgo("the changes were too many to be kept"); err != nil {
		p.err = err.Error()
	}
}

// centralStatus tells how far a pipeline is in the central store; nil: there is none.
func (a *Agent) centralStatus(id snapshot.UUID) *api.CentralStatus {
	p := a.offsites.pipe(id)
	if p == nil {
		return nil
	}
	s := p.Status(time.Now())
	out := &api.CentralStatus{Serial: s.Serial, Checkpoint: s.Checkpoint, Position: s.Position, Pending: s.Pending, Base: s.Base, Sent: s.Sent, Uploads: s.Uploads,
		BaseBytes: s.BaseBytes, DeltaBytes: s.Deltas, Error: s.Error, Fenced: s.Fenced, AgeSeconds: -1}
	if s.Serial > 0 {
		t := time.UnixMilli(s.CreatedMs)
		out.Created = &t
	}
	stamp := a.clock.Stamp()
	switch {
	case s.Age >= 0:
		out.AgeSeconds = s.Age.Seconds()
	case s.Serial > 0 && stamp.Trusted && stamp.Wall >= s.CreatedMs: // uploaded before this start
		out.AgeSeconds = float64(stamp.Wall-s.CreatedMs) / 1e3
	}
	out.LossSeconds = out.AgeSeconds
	if ship := a.offsites.shipping; ship != nil {
		age, upTo, err := ship.lossAge(s.Position, a.journal.Durable(), time.Now())
		if out.Shipped = upTo; age >= 0 && (out.LossSeconds < 0 || age < out.LossSeconds) {
			out.LossSeconds = age
		}
		if out.Error == "" && err != "" {
			out.Error = "records are not shipped: " + err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if out.Error == "" {
		out.Error = p.err
	}
	if err := a.offsites.uploader.Fence(); err != nil {
		out.Error = err.Error()
	}
	return out
}

// uploadFence is asked before a head in the central store is moved.
func (a *Agent) uploadFence(ctx context.Context) error {
	by, err := a.claims.Check(ctx, a.identity.Major, a.board())
	if by != nil {
		a.fenceOff(by)
		return fmt.Errorf("%w: %s", central.ErrFenced, by.Why())
	}
	return err
}
