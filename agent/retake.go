package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weirstream/weir/agent/apply"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink"
)

// Retake makes a fenced device its gateway again, under a major above the one that has taken its place: from the central store where there is one. The agent must not run.
// Durable on return; a repeat, once it was done, finds no fence.
func Retake(ctx context.Context, cfg *config.Config) (uplink.Incarnation, error) {
	return retake(ctx, cfg, nil, settleChanges)
}

func retake(ctx context.Context, cfg *config.Config, claims offsite.Claims, settle func(stateDir string) error) (inc uplink.Incarnation, err error) {
	dir := cfg.StateDir.Value
	lock, err := statedir.Acquire(dir)
	if err != nil {
		return inc, err
	}
	defer lock.Close()
	r, err := identity.Load(disk.OS, dir)
	if err != nil {
		return inc, err
	}
	if r == nil {
		return inc, neverRan(dir)
	}
	by, err := identity.LoadFenced(disk.OS, dir, r)
	if err != nil {
		return inc, err
	}
	if by == nil {
		return inc, fmt.Errorf("this device is not fenced (state_dir %s): no other one has taken its place, and there is nothing to take back", dir)
	}
	registry, err := statedir.OpenRegistry(disk.OS, dir)
	if err != nil {
		return inc, err
	}
	board := identity.ReadBoard(cfg.BoardSerial, os.ReadFile)
	next := r.Successor(board, by.Major+1)
	if claims == nil {
		if claims, err = offsite.OpenClaims(cfg, registry.Gateway, nil); err != nil {
			return inc, err
		}
		if claims != nil {
			defer claims.Close()
		}
	}
	if claims != nil {
		major, err := claims.Take(ctx, next.Token, next.Major)
		if err != nil {
			return inc, fmt.Errorf("claim the gateway: %w", err)
		}
		next = r.Successor(board, major)
	}
	next.LeastGeneration = identity.GenerationsOf(next.Major)
	if err := settle(dir); err != nil {
		return inc, err
	}
	if err := next.Save(disk.OS, dir); err != nil {
		return inc, err
	}
	return next.Incarnation(), identity.Lift(disk.OS, dir)
}

func neverRan(stateDir string) error {
	return fmt.Errorf("no agent has run in state_dir %s: is that the config of the device that is meant (-c)?", stateDir)
}

// settleChanges gives an apply or an upgrade up that the fence found on trial.
func settleChanges(dir string) error {
	if err := settleApply(dir); err != nil {
		return err
	}
	return settleUpgrade(filepath.Join(dir, "upgrade"))
}

// settleApply gives an apply up that the fence found on probation, before the device works again: its results were held and none has left, so the old plans go on from their savepoints, and the streams enter this
// device's generation from there. On trial in that generation, the new plan would leave the savepoints one behind. Durable on return; a repeat is harmless. The other states need nothing:
// the next start finishes them.
func settleApply(dir string) error {
	store := apply.Store{FS: disk.OS, Dir: filepath.Join(dir, "apply")}
	rec, err := store.Load()
	if err != nil || rec.State != apply.Probation {
		return err
	}
	if rec, err = apply.Next(rec, apply.Event{Kind: apply.Failed, Why: "another device took this one's place within the probation"}); err != nil {
		return err
	}
	return store.Save(&rec)
}
