package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/apply"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
)

// applier brings changed configs into force, one at a time (agent/apply/DESIGN.md has the states). Its goroutine (run) owns everything but what mu
// guards; before Run open does.
type applier struct {
	agent *Agent
	store apply.Store
	asks  chan *applyAsk
	ended chan struct{} // closed when run has returned

	old, next *config.Config  // of the apply under way; at rest next is nil
	held      *probation      // of the new plans that are on trial
	sinkWait  time.Duration   // how long a probation that is over waits for the answers of new sinks
	over      func() bool     // tests end a probation when they have seen it; nil: the clock ends it
	stopped   map[string]bool // by the apply, while it saves

	mu  sync.Mutex
	rec apply.Record
}

// probation holds the results of the pipelines that an apply is trying out. nil holds nothing.
type probation struct{ over atomic.Bool }

func (p *probation) holds() bool { return p != nil && !p.over.Load() }

// applyAsk is one call of Apply.
type applyAsk struct {
	ctx    context.Context // of the caller: only a try-out ends with it
	o      api.ApplyOptions
	events chan api.ApplyEvent
	done   chan *api.ApplyOutcome
}

// tell gives the caller news, if it listens still.
func (k *applyAsk) tell(e api.ApplyEvent) {
	if k == nil {
		return
	}
	select {
	case k.events <- e:
	default: // it went away, or reads slowly: the outcome comes all the same
	}
}

func (a *Agent) newApplier() *applier {
	return &applier{agent: a, store: apply.Store{FS: disk.OS, Dir: filepath.Join(a.config.StateDir.Value, "apply")}, sinkWait: sinkWaitOf(), asks: make(chan *applyAsk), ended: make(chan struct{})}
}

// openApplier reads the record and decides which config runs: the file's, or the one that is in force. It writes nothing: a tool that opens state_dir is no start.
func (a *Agent) openApplier() (*applier, error) {
	p := a.newApplier()
	rec, err := p.store.Load()
	if record.IsNewer(err) {
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("%w; which plans made the results that wait here cannot be told: restore the file from a backup, or remove it to start with the config file", err)
	}
	if rec, err = apply.Next(rec, apply.Event{Kind: apply.Started}); err != nil {
		return nil, err
	}
	file := a.config.Digest()
	runs, why := apply.Choose(&rec, file)
	if kept := a.upgrader.kept; rec.Resting() && kept != "" && kept != file { // the savepoints are of the config that it began with
		switch cfg, err := p.keptConfig(kept, true); {
		case err == nil:
			a.log.Warn("the config file is not what runs", "file", a.config.File, "why", "an upgrade is under way")
			a.config, p.rec = cfg, rec
			return p, nil
		case ofDisk(err):
			return nil, err
		default: // no start to come finds it otherwise, nor does the other program
			a.log.Error("the config that the upgrade began with is not here: the one of an ordinary start runs", "error", err)
		}
	}
	switch runs {
	case apply.RunAdopt:
		if rec, err = apply.Next(rec, apply.Event{Kind: apply.Adopted, Record: apply.Record{New: file}}); err != nil {
			return nil, err
		}
	case apply.RunKept:
		kept, err := p.keptConfig(rec.InForce(), !rec.Resting())
		if err != nil {
			return nil, err
		}
		if file != rec.InForce() {
			a.log.Warn("the config file is not what runs", "file", a.config.File, "why", why)
		}
		a.config = kept
	}
	p.rec = rec
	if rec.Resting() {
		return p, nil
	}
	if p.old, err = p.keptConfig(rec.Old, true); err == nil {
		p.next, err = p.keptConfig(rec.New, true)
	}
	if rec.State == apply.Probation {
		p.held = &probation{}
	}
	return p, err
}

// record is for others than run's goroutine.
func (p *applier) record() apply.Record {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rec
}

// note takes an event: the record is durable before it returns.
func (p *applier) note(e apply.Event) error {
	next, err := apply.Next(p.rec, e)
	if err != nil {
		return err
	}
	p.agent.die("apply-before-" + string(e.Kind))
	if err := p.store.Save(&next); err != nil {
		return err
	}
	p.mu.Lock()
	p.rec = next
	p.mu.Unlock()
	p.agent.die("apply-after-" + string(e.Kind))
	return nil
}

// status is for others than run's goroutine; nil when nothing was ever applied.
func (p *applier) status() *api.ApplyStatus {
	rec := p.record()
	if rec.State == apply.None {
		return nil
	}
	s := &api.ApplyStatus{Number: rec.Number, State: string(rec.State), Reason: rec.Why}
	for _, c := range rec.Changes {
		s.Changes = append(s.Changes, fmt.Sprintf("%s %s", c.Name, c.Kind))
	}
	return s
}

// names are those whose state stays: of what runs, and of what an apply on probation would remove.
func (p *applier) names(runs []run) (names []string) {
	for _, r := range runs {
		names = append(names, r.Name.Value)
	}
	if p.rec.State == apply.Probation {
		for _, c := range p.rec.Changes {
			if c.Kind == apply.Removed {
				names = append(names, c.Name)
			}
		}
	}
	return names
}

// highest is the highest position of a savepoint that an apply may go back to.
func (p *applier) highest() (high pipeline.Position) {
	if !p.rec.Resting() {
		for _, c := range p.rec.Changes {
			high = max(high, pipeline.Position(c.Position))
		}
	}
	return high
}

// committed are the pipelines of the config that holds whatever becomes of the apply under way, of those that run or would; back is where the apply has left those that may be gone
// back to there. Nothing of a plan on probation counts: its results were held, and its messages are worked on again.
func (p *applier) committed(all []*supervisor) (runs []run, back map[string]saved, err error) {
	for _, s := range all {
		runs = append(runs, s.spec)
	}
	rec := p.record()
	if rec.Resting() || rec.State == apply.Saving {
		return runs, nil, nil
	}
	if rec.State == apply.Probation {
		if runs, err = p.before(runs, &rec); err != nil {
			return nil, nil, err
		}
	}
	back = map[string]saved{}
	for i := range rec.Changes {
		c := &rec.Changes[i]
		if c.Kind != apply.Changed {
			continue
		}
		undone := true
		if rec.State == apply.Restoring {
			if undone, err = restore.Pending(p.agent.pipelineDir(c.UUID)); err != nil {
				return nil, nil, err
			}
		}
		if undone {
			back[c.Name] = savedOf(*c)
		}
	}
	return runs, back, nil
}

// before gives the pipelines of the old config.
func (p *applier) before(runs []run, rec *apply.Record) ([]run, error) {
	old, err := p.keptConfig(rec.Old, true) // p.old is the applier's goroutine's
	if err != nil {
		return nil, err
	}
	runs = slices.DeleteFunc(runs, func(r run) bool {
		return slices.ContainsFunc(rec.Changes, func(c apply.Change) bool { return c.Name == r.Name.Value })
	})
	for _, r := range p.agent.runsOf(old, p.agent.roster.Load().ways) {
		if slices.ContainsFunc(rec.Changes, func(c apply.Change) bool { return c.Name == r.Name.Value && c.Kind != apply.Added }) {
			runs = append(runs, r)
		}
	}
	return runs, nil
}

// heldBack is what holds the results of a run, nil when they may leave.
func (p *applier) heldBack(name string) *probation {
	for _, c := range p.rec.Changes {
		if c.Name == name {
			return p.held
		}
	}
	return nil
}

// hold keeps the journal from letting go of what the savepoints of the apply under way need (RULES 22). A repeat is harmless.
func (p *applier) hold() {
	if p.rec.Resting() {
		return
	}
	for _, c := range p.rec.Changes {
		switch j := p.agent.journal; {
		case c.Savepoint != "":
			p.agent.retain(holdPrefix, savedOf(c))
		case c.Kind == apply.Removed: // it may come back, from a checkpoint of its own
			j.Retain(holdPrefix+c.UUID, j.First()-1)
		}
	}
}

const holdPrefix = "apply/"

// release ends hold.
func (p *applier) release() {
	for _, c := range p.rec.Changes {
		p.agent.journal.Release(holdPrefix + c.UUID)
	}
}

// begin makes durable what the start decided, before anything runs, and finishes what needs that nothing runs.
func (p *applier) begin(ctx context.Context) error {
	a, rec := p.agent, p.rec
	if rec.State == apply.None || a.rescues() { // a rescue may not be able to read what lies here
		return nil
	}
	before, err := p.store.Load()
	if err != nil {
		return err
	}
	if rec.InForce() == a.config.Digest() {
		if err := p.store.Keep(a.config); err != nil { // adopted, maybe
			return err
		}
	}
	if before.State == apply.Saving {
		if err := p.withdraw(before.Changes); err != nil {
			return err
		}
	}
	if !reflect.DeepEqual(before, rec) {
		if err := p.store.Save(&rec); err != nil {
			return err
		}
	}
	if rec.State == apply.Returning {
		return p.drop(ctx)
	}
	return nil
}

// run finishes an apply that was under way, then carries out those that are asked for, until ctx ends.
func (p *applier) run(ctx context.Context) error {
	defer close(p.ended)
	told := "" // the last error: one that stays is told once
	again := time.NewTicker(applyAgain)
	defer again.Stop()
	for {
		if !p.rec.Resting() && p.agent.fence.err() == nil && p.agent.upgrader.busy() == nil { // a rescue lets it stand, and another program goes on with it once it is committed
			out := p.finish(ctx, nil)
			if out.Error != told && ctx.Err() == nil {
				p.agent.log.Error("config not applied", "result", out.Result, "error", out.Error)
			}
			told = out.Error
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again.C:
		case k := <-p.asks:
			out := p.apply(ctx, k)
			if out.Error != "" && ctx.Err() == nil && !k.o.DryRun {
				p.agent.log.Error("config not applied", "result", out.Result, "error", out.Error)
			}
			k.done <- out
		}
	}
}

// applyAgain is how often an apply that stands is tried again: when its old plan could not start, say, until the operator has seen to it.
const applyAgain = 5 * time.Second

// ErrApplying: one apply at a time.
var ErrApplying = errors.New("another apply is under way; see weir status")

// applyEvents is how much news waits for a caller: more than an apply of many pipelines has.
const applyEvents = 1024

// Apply brings a changed config into force, and calls told with what it does. It goes on when the caller leaves: an apply is not cut short.
func (a *Agent) Apply(ctx context.Context, o api.ApplyOptions, told func(api.ApplyEvent) error) *api.ApplyOutcome {
	k := &applyAsk{ctx: ctx, o: o, events: make(chan api.ApplyEvent, applyEvents), done: make(chan *api.ApplyOutcome, 1)}
	if err := a.fence.err(); err != nil {
		return refusedApply(err)
	}
	if err := a.upgrader.busy(); err != nil {
		return refusedApply(err)
	}
	if rec := a.applier.record(); !rec.Resting() {
		return refusedApply(fmt.Errorf("%w: it is %s", ErrApplying, rec.State))
	}
	select {
	case a.applier.asks <- k:
	case <-a.applier.ended:
		return refusedApply(errStopping)
	case <-ctx.Done():
		return nil
	}
	for {
		select {
		case e := <-k.events:
			if told(e) != nil {
				return nil
			}
		case out := <-k.done:
			for len(k.events) > 0 {
				if told(<-k.events) != nil {
					return nil
				}
			}
			return out
		case <-ctx.Done():
			return nil
		}
	}
}

// Reload applies the config file that the agent was started with, as SIGHUP asks. What comes of it is in the log and the status.
func (a *Agent) Reload(ctx context.Context) {
	out := a.Apply(ctx, api.ApplyOptions{File: a.file}, func(api.ApplyEvent) error { return nil })
	if out != nil {
		a.log.Info("config file read again", "file", a.file, "result", out.Result, "error", out.Error)
	}
}
