//go:build !nocentral

package agent

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/weirstream/weir/agent/upgrade"
)

// diskFull tells that an error is of a disk, or a quota, without room.
func diskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// unstarted notes why a start came to nothing, before any pipeline ran, and gives the error. A full disk says nothing against a program on trial: without this its starts would be used up, and its digest rejected for ever. It is gone back from at
// once, since no start to come is sure to find room, and may be asked for again. The record has its room (Store), and where it cannot be written the start counts as any.
func (u *upgrader) unstarted(err error) error {
	if err == nil || u == nil || !diskFull(err) || u.broken != nil || !u.agent.runs() || u.agent.fence.err() != nil {
		return err
	}
	if u.here.Booted != u.rec.Standby || u.rec.State != upgrade.Probation && u.rec.State != upgrade.Committing {
		return err
	}
	next, nerr := upgrade.Next(u.rec, upgrade.Event{Kind: upgrade.Went, Now: now(), Booted: u.here.Booted, Cause: upgrade.CauseSpace, Why: fmt.Sprintf("the disk was full when the new program started: %v", err)})
	if nerr == nil {
		_, nerr = u.store.Load()
	}
	if nerr == nil {
		nerr = u.store.Save(&next)
	}
	if nerr != nil {
		u.agent.log.Warn("that the disk is full could not be noted: this start counts against the program on trial", "error", nerr)
		return err
	}
	u.agent.log.Error("upgrade is gone back from", "version", next.Target.Version, "why", next.Why)
	return err
}
