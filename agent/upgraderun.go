//go:build !nocentral

package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/upgrade"
)

// upgradeAsk is one call of Upgrade.
type upgradeAsk struct {
	o    api.UpgradeOptions
	by   *fleetOrder // the document that asked; nil: somebody on this device
	done chan error
}

// leaving is closed when this process is to end for another program.
func (u *upgrader) leaving() <-chan struct{} { return u.leave }

// upgradeAgain is how often an act that failed is tried again, unless it is one that lasts, and how often the time of a state is looked at.
const upgradeAgain = upgrade.AskedAgain

// begin is called before anything runs: it finishes what needs that nothing runs.
func (u *upgrader) begin() error {
	if u.broken != nil {
		return nil
	}
	if u.rec.State == upgrade.Failed { // an order that was written before, and is not to be carried out
		for _, s := range u.backTo() {
			if err := u.agent.withdraw(s.UUID); err != nil {
				return err
			}
		}
	}
	for _, s := range u.agent.all() {
		if errors.Is(s.parked, errUpgrading) {
			u.parked[s.name] = true
		}
	}
	if u.act.Do == upgrade.Watch {
		u.watched = time.Now()
		plantedTrial(u.agent.pipelinesDir())
	}
	return nil
}

// run carries on an upgrade that is under way, and takes up those that are asked for, until ctx ends.
func (u *upgrader) run(ctx context.Context) error {
	defer close(u.ended)
	again := time.NewTicker(upgradeAgain)
	defer again.Stop()
	told, kept, warned, spared := "", false, false, u.agent.fence.err() != nil
	for ctx.Err() == nil {
		var err error
		if !spared && u.agent.fence.err() != nil {
			spared = true
			err = u.spare()
		}
		if !kept && err == nil {
			if kept, err = u.keep(ctx); err != nil && ctx.Err() == nil && !warned {
				warned = true
				u.agent.log.Error("the boot loader cannot be told that this system runs well; it is tried again", "error", err)
			}
			err = nil
		}
		if u.due() {
			err = u.step(ctx)
			if u.again = u.again.next(err, time.Now()); ctx.Err() == nil {
				u.tells(err)
			}
			if err == nil {
				told = ""
				continue
			}
		}
		if err != nil && ctx.Err() == nil && !errors.Is(err, errWaits) && err.Error() != told {
			told = err.Error()
			u.agent.log.Error("upgrade stands and is tried again", "state", string(u.rec.State), "error", err)
		}
		select {
		case <-ctx.Done():
		case <-again.C:
		case k := <-u.asks:
			k.done <- u.ask(ctx, k)
		}
	}
	return nil
}

// spare has a start that began a trial, and was fenced in it, use up no try.
func (u *upgrader) spare() error {
	if u.here.Booted != u.rec.Standby || u.rec.State != upgrade.Probation && u.rec.State != upgrade.Committing {
		return nil
	}
	return u.note(upgrade.Event{Kind: upgrade.Stands, Booted: u.here.Booted})
}

// due tells that there is something to do: a fenced device lets an upgrade stand as it is.
func (u *upgrader) due() bool {
	return u.broken == nil && u.agent.fence.err() == nil && (u.owed != nil || !u.rests() && (u.act.Revert || u.leaves() || u.act.Do != upgrade.Rest && u.act.Do != upgrade.Control))
}

// leaves tells that a program which is not the one to run tries once more to have the other one started.
func (u *upgrader) leaves() bool { return u.act.Leave && !time.Now().Before(u.leaveAt) }

// leaveAgain is goAway, now and then.
func (u *upgrader) leaveAgain(ctx context.Context) error {
	u.leaveAt = time.Now().Add(upgrade.LeaveAgain)
	return u.goAway(ctx)
}

// step does what is to be done now, and takes what came of it into the record.
func (u *upgrader) step(ctx context.Context) error {
	if u.owed != nil {
		err := u.owed(ctx)
		if err == nil {
			u.owed = nil
		}
		return err
	}
	act, cut := context.WithCancel(ctx)
	defer cut()
	u.mu.Lock()
	u.cut = cut
	halt := u.halt
	u.mu.Unlock()
	if halt != "" {
		return u.end(ctx, upgrade.Event{Kind: upgrade.Halted, Why: halt})
	}
	if e, over := upgrade.Overdue(u.rec, now()); over {
		return u.end(ctx, e)
	}
	err := u.do(act)
	u.mu.Lock()
	u.cut = nil
	halt = u.halt
	u.mu.Unlock()
	var why *unfit
	switch {
	case ctx.Err() != nil || u.agent.fence.err() != nil:
		return err
	case halt != "" && err != nil:
		return nil // the next step ends it
	case errors.As(err, &why):
		return u.end(ctx, upgrade.Event{Kind: upgrade.Went, Cause: why.cause, Why: why.Error(), Booted: u.here.Booted})
	}
	return err
}

// unfit is why an upgrade cannot go on: another try would not help.
type unfit struct {
	cause upgrade.Cause
	err   error
}

func (u *unfit) Error() string { return u.err.Error() }
func (u *unfit) Unwrap() error { return u.err }

func unfitFor(cause upgrade.Cause, format string, args ...any) error {
	return &unfit{cause, fmt.Errorf(format, args...)}
}

// do carries one act out and notes the event behind it. An error that is no unfit leaves the record as it is: the act is done again.
func (u *upgrader) do(ctx context.Context) error {
	switch u.act.Do {
	case upgrade.Gate:
		return u.judge(ctx)
	case upgrade.Fetch:
		return u.fetch(ctx)
	case upgrade.Stage:
		return u.stage(ctx)
	case upgrade.Drain:
		return u.drain(ctx)
	case upgrade.Upload:
		return u.handOver(ctx)
	case upgrade.Activate:
		return u.activate(ctx)
	case upgrade.Watch:
		return u.watch(ctx)
	case upgrade.Commit:
		return u.commit(ctx)
	case upgrade.Revert:
		return u.revert(ctx)
	case upgrade.Restore:
		return u.restore(ctx)
	case upgrade.Leave:
		return u.goAway(ctx)
	}
	if u.act.Leave {
		return u.leaveAgain(ctx)
	}
	return u.revertAgain(ctx) // besides
}

// end notes that the upgrade does not go on, and does what follows here.
func (u *upgrader) end(ctx context.Context, e upgrade.Event) error {
	if err := u.note(e); err != nil {
		return err
	}
	u.mu.Lock()
	u.halt = ""
	u.mu.Unlock()
	switch u.rec.State {
	case upgrade.Failed:
		u.agent.log.Error("upgrade failed; the program stays", "version", u.rec.Target.Version, "why", u.rec.Why)
		u.owed = u.resume
	case upgrade.Rollback:
		u.agent.log.Error("upgrade is gone back from", "version", u.rec.Target.Version, "why", u.rec.Why)
	}
	return nil // a halt that came too late changes nothing
}

// resume has the pipelines go on that this process has stopped: from where they stopped.
func (u *upgrader) resume(ctx context.Context) error {
	u.clean(ctx)
	for _, s := range u.backTo() {
		if err := u.agent.withdraw(s.UUID); err != nil {
			return err
		}
	}
	if u.act.Run != upgrade.RunNone { // in a rescue
		if err := u.start(ctx); err != nil {
			return err
		}
	}
	u.unhold()
	return nil
}

// start has the pipelines run that do not because of the upgrade. One that was asked is not asked again: whoever stops it then wants it so.
func (u *upgrader) start(ctx context.Context) error {
	for _, s := range u.agent.all() {
		if !u.stopped[s.name] && !u.parked[s.name] {
			continue
		}
		if err := s.ask(ctx, command{}); err != nil {
			return err
		}
		delete(u.stopped, s.name)
		delete(u.parked, s.name)
	}
	return nil
}

// waits tells what is waited for, for the status.
func (u *upgrader) waits(text string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.wait = text
}

// activate has the new program run at the next start, and ends this one: all is durable.
func (u *upgrader) activate(ctx context.Context) error {
	if u.backend == nil {
		return u.inVain(ctx, errNoBackend)
	}
	if err := u.backend.Activate(ctx, u.rec.Standby, upgrade.TriesNew); err != nil {
		return u.inVain(ctx, fmt.Errorf("activate slot %s: %w", u.rec.Standby, err))
	}
	u.agent.die("upgrade-activated")
	return u.inVain(ctx, u.restart(ctx, "the new program is to start"))
}

// goAway has the program run that is to, and ends this one.
func (u *upgrader) goAway(ctx context.Context) error {
	if u.backend == nil {
		return errNoBackend
	}
	if slot := u.rec.Runs(); slot != u.here.Booted {
		if err := u.backend.Revert(ctx, slot); err != nil {
			return fmt.Errorf("revert to slot %s: %w", slot, err)
		}
	}
	return u.restart(ctx, u.why())
}

// restart ends this process, and waits for its end.
func (u *upgrader) restart(ctx context.Context, why string) error {
	if err := u.backend.Restart(ctx); err != nil {
		return fmt.Errorf("restart: %w", err)
	}
	u.agent.log.Info("this program ends for another", "why", why)
	if !u.caps.NeedsReboot {
		close(u.leave)
		<-ctx.Done()
		return ctx.Err()
	}
	late := time.NewTimer(rebootMax)
	defer late.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-late.C:
		return fmt.Errorf("restart: it was asked for %s ago, and this machine still runs", rebootMax)
	}
}

// rebootMax is how long a machine may take to go down: services have 90 s each.
const rebootMax = 10 * time.Minute

var errNoBackend = errors.New("upgrade.backend is none, or cannot be asked: there is nothing that puts another program into place")

// Upgrade has another program take over. It returns when the order is recorded: what comes of it, the status tells. It goes on when the caller leaves.
func (a *Agent) Upgrade(ctx context.Context, o api.UpgradeOptions) error {
	if err := a.fence.err(); err != nil {
		return err
	}
	if o.File == "" {
		return errors.New("no file was named")
	}
	return a.upgrader.send(ctx, &upgradeAsk{o: o})
}

// AbortUpgrade gives the upgrade under way up. Behind the commit there is nothing to give up any more.
func (a *Agent) AbortUpgrade(ctx context.Context, why string) error {
	u := a.upgrader
	u.mu.Lock()
	defer u.mu.Unlock()
	switch u.rec.State {
	case upgrade.Accepted, upgrade.Fetching, upgrade.Staged, upgrade.Draining, upgrade.Saved, upgrade.Switched, upgrade.Probation:
	case upgrade.Committing:
		return errors.New("the new program has passed its probation, and is committed right now; have another one installed to leave it")
	default:
		return errors.New("no upgrade is under way that could be given up")
	}
	u.halt = "given up by the operator"
	if why != "" {
		u.halt += ": " + why
	}
	if u.cut != nil {
		u.cut()
	}
	return nil
}

// awaitsHelp tells that no slot could be verified: what is under way cannot go on, and another program may be asked for in its place (Next keeps what was saved).
func (u *upgrader) awaitsHelp() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.here.Rescue && u.act.Do == upgrade.Control
}

// send gives the goroutine an order while it rests.
func (u *upgrader) send(ctx context.Context, k *upgradeAsk) error {
	if rec := u.record(); u.broken != nil || !rec.Resting() && !u.awaitsHelp() {
		return u.busy()
	}
	k.done = make(chan error, 1)
	select {
	case u.asks <- k:
	case <-u.ended:
		return errStopping
	case <-ctx.Done():
		return ctx.Err()
	}
	return <-k.done
}
