//go:build !nocentral

package agent

import (
	"context"

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
	k, ok := u.backend.(keeps)
	switch {
	case !ok:
		return true, nil
	case u.broken != nil, !u.rec.Resting(), u.rec.State != upgrade.Idle && u.rec.Runs() != u.here.Booted:
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, backendWait)
	defer cancel()
	err = k.Keep(ctx)
	return err == nil, err
}
