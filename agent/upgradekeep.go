//go:build !nocentral

package agent

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/agent/upgrade"
)

// keeps is a backend whose boot loader counts every start, also of a system that was committed long ago: it is told of each that went well, or falls back in the end.
type keeps interface {
	Keep(ctx context.Context) error
}

// countStart: in front of the agent of a whole system stands no helper that counts. What the event changes is durable before anything else is done (settle).
func (u *upgrader) countStart() (err error) {
	if u.caps.NeedsReboot {
		u.rec, err = upgrade.Next(u.rec, upgrade.Event{Kind: upgrade.Counted, Now: now(), Booted: u.here.Booted})
	}
	return err
}

// keep tells the boot loader once in a start, while no upgrade is under way; done: it needs no other try. It is for run's goroutine.
func (u *upgrader) keep(ctx context.Context) (done bool, err error) {
	k, ok := u.agent.options.Backend.(keeps)
	switch {
	case !ok:
		return true, nil
	case u.broken != nil, !u.rec.Resting():
		return false, nil
	case u.backend == nil:
		if u.tally["keep"]++; u.tally["keep"]%keepEvery != 1 {
			return false, nil
		}
		if err := u.reach(ctx); err != nil {
			return false, err
		}
	}
	if u.rec.State != upgrade.Idle && u.rec.Runs() != u.here.Booted {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, backendWait)
	defer cancel()
	err = k.Keep(ctx)
	return err == nil, err
}

// keepEvery is how many looks (upgradeAgain) lie between two questions to a backend that does not answer.
const keepEvery = 15

// reach asks a backend once more that could not be asked when this process started, while no upgrade was under way: RAUC may come later than the agent. It is for run's goroutine.
func (u *upgrader) reach(ctx context.Context) error {
	b := u.agent.options.Backend
	switch {
	case u.backend != nil:
		return nil
	case b == nil:
		return errNoBackend
	}
	ctx, cancel := context.WithTimeout(ctx, backendWait)
	defer cancel()
	caps, err := b.Probe(ctx)
	if err != nil {
		return fmt.Errorf("upgrade.backend: %w", err)
	}
	booted, err := b.Booted(ctx)
	if err != nil {
		return fmt.Errorf("upgrade.backend: %w", err)
	}
	if u.rec.State != upgrade.Idle && booted != u.here.Booted {
		return fmt.Errorf("upgrade.backend: this program runs from slot %s, and began as that of slot %s: weir has to be started again", booted, u.here.Booted)
	}
	u.caps, u.here.Booted, u.backend = caps, booted, b
	return nil
}
