package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/outbox"
	"github.com/weirstream/weir/uplink"
)

// claimWait bounds one request to the central store about who may speak for this gateway.
const claimWait = 10 * time.Second

// readIdentity decides which incarnation this agent is, and writes nothing; an error is that it is none. settle makes it so.
func (a *Agent) readIdentity(used bool) (settle func() error, err error) {
	dir := a.config.StateDir.Value
	board := identity.ReadBoard(a.config.BoardSerial, os.ReadFile)
	if a.identity, err = identity.Load(a.fs, dir); err != nil {
		return nil, err
	}
	if a.checks() {
		return func() error { return a.checkIdentity(dir, board, used) }, nil
	}
	action, err := identity.Decide(identity.Facts{Record: a.identity, Used: used, Board: board, NewBoard: a.options.NewBoard, Central: a.claims != nil})
	if err != nil {
		return nil, err
	}
	return func() error { return a.settleIdentity(action, dir, board, used) }, nil
}

// settleIdentity says which incarnation this agent is, durably, before anything is opened that an upstream could see (RULES 27, 28), and whether another device
// has taken its place (RULES 29).
func (a *Agent) settleIdentity(action identity.Action, dir string, board identity.Board, used bool) (err error) {
	switch action {
	case identity.Begin:
		a.identity = identity.First(board, used)
		err = a.identity.Save(a.fs, dir)
	case identity.NewMajor:
		err = a.newMajor(dir, board)
	case identity.Trust:
		a.log.Warn("nothing tells whether this is the board that state_dir belongs to", "board", a.identity.Token)
	case identity.Keep:
		if a.identity.Saw(board) {
			err = a.identity.Save(a.fs, dir)
		}
	}
	if err != nil {
		return err
	}
	if err := a.upgrader.minor(); err != nil {
		return err
	}
	plantedMeekness(a.identity)
	fence, err := identity.LoadFenced(a.fs, dir, a.identity)
	if err != nil {
		return a.standIn("whether this device is fenced", err)
	}
	a.log.Info("incarnation", "is", a.incarnation().String(), "board", a.identity.Token)
	if fence != nil {
		a.fence.raise(fence)
		a.log.Error("this device is fenced: no broker is connected and no pipeline runs; its data stays", "why", fence.Why())
		return nil
	}
	return identity.Lift(a.fs, dir)
}

// newMajor makes state_dir that of this board.
func (a *Agent) newMajor(dir string, board identity.Board) error {
	next, was := a.identity.Successor(board, a.identity.Major+1), a.identity.Token
	if a.claims != nil {
		ctx, cancel := context.WithTimeout(context.Background(), claimWait)
		defer cancel()
		major, err := a.claims.Take(ctx, next.Token, next.Major)
		if err != nil {
			return fmt.Errorf("%w %s: a new incarnation has to be claimed at the central store: %w", identity.ErrOtherBoard, was, err)
		}
		next = a.identity.Successor(board, major)
	}
	a.identity = next
	if err := next.Save(disk.OS, dir); err != nil {
		return err
	}
	a.log.Warn("state_dir was moved to this board: a new incarnation", "is", next.Incarnation().String(), "board", next.Token, "before", was)
	return nil
}

// incarnation is the fencing token of this unit; restores on other hardware and upgrades raise it.
func (a *Agent) incarnation() outbox.Incarnation {
	return outbox.Incarnation{Major: a.identity.Major, Minor: a.identity.Minor}
}

// board is this unit's name to upstreams: an equal incarnation of another one is refused there (RULES 28).
func (a *Agent) board() string { return a.identity.Token }

// lineage are the incarnations whose checkpoints are this agent's own (RULES 25).
func (a *Agent) lineage() (list []snapshot.Incarnation) {
	for _, i := range a.identity.Lineage {
		list = append(list, snapshot.Incarnation{Major: i.Major, Minor: i.Minor})
	}
	return list
}

// fencedBy takes what an upstream refused a sink with. A higher major is other hardware that has taken this gateway's place: all of the agent stops. Anything else
// concerns the one stream.
func (a *Agent) fencedBy(err error) {
	var by *uplink.Fenced
	if !errors.As(err, &by) || by.Incarnation.Major <= a.identity.Major {
		return
	}
	a.fenceOff(&identity.Fenced{Major: by.Incarnation.Major, Board: by.Board, Where: by.Where})
}
