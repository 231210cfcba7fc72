package agent

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink"
)

// Retake makes a fenced device its gateway again, under a major above the one that has taken its place: from the central store where there is one. The agent must not run.
// Durable on return; a repeat, once it was done, finds no fence.
func Retake(ctx context.Context, cfg *config.Config) (uplink.Incarnation, error) {
	return retake(ctx, cfg, nil)
}

func retake(ctx context.Context, cfg *config.Config, claims claims) (inc uplink.Incarnation, err error) {
	dir := cfg.StateDir.Value
	lock, err := LockStateDir(dir)
	if err != nil {
		return inc, err
	}
	defer lock.Close()
	r, err := identity.Load(disk.OS, dir)
	if err != nil {
		return inc, err
	}
	if r == nil {
		return inc, errors.New("no agent has run in state_dir")
	}
	by, err := identity.LoadFenced(disk.OS, dir, r)
	if err != nil {
		return inc, err
	}
	if by == nil {
		return inc, errors.New("this device is not fenced")
	}
	registry, err := OpenRegistry(disk.OS, dir)
	if err != nil {
		return inc, err
	}
	board := identity.ReadBoard(cfg.Board, os.ReadFile)
	next := r.Successor(board, by.Major+1)
	if claims == nil {
		if claims, err = openClaims(cfg, registry.Gateway); err != nil {
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
	if err := next.Save(disk.OS, dir); err != nil {
		return inc, err
	}
	return next.Incarnation(), identity.Lift(disk.OS, dir)
}
