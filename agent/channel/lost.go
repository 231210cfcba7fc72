package channel

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink/bucket"
)

// Ledger is where a channel in dir keeps what it has done.
func Ledger(dir string) string { return filepath.Join(dir, ledgerFile) }

// Unreadable tells why the ledger in dir cannot be read, and nobody directs the gateway; nil: it can, or there is none.
func Unreadable(fsys disk.FS, dir string) error {
	_, _, err := loadLedger(fsys, dir)
	return err
}

// Renew puts a ledger in the place of one that is lost: of each of the scopes no command is carried out that is published when it is looked next. Each runs once, or not at all. Durable on return; a repeat is harmless.
func Renew(fsys disk.FS, dir string, scopes ...string) error {
	l := &ledger{Format: 1, Lost: scopes}
	if err := l.write(fsys, dir); err != nil {
		return fmt.Errorf("make it anew: %w", err)
	}
	return nil
}

// Scopes are those in which a gateway is given commands.
func Scopes(channel, gateway string) []string {
	return []string{document.ScopeChannel + channel, document.ScopeDevice + gateway}
}

// mute reports until ctx ends, and does nothing else: without the ledger, what was done would be done again.
func (c *Channel) mute(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		if c.Acts.Fenced() == nil {
			c.tell(ctx)
			c.show()
		}
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
	}
}

// lostDetail is the result of a command that may have been carried out.
const lostDetail = "this gateway's record of what it has done was lost; the command was published before, and is not carried out: whether it was is not known. Give it again if it is still to be done"

// forgotten answers the commands of the gateway's own list that were published before the ledger was made anew. One that has a result keeps it: here, or in the store. An answer that cannot be given now is none: the command is not carried out all the same.
func (c *Channel) forgotten(ctx context.Context, list *document.Commands) {
	if !slices.Contains(c.ledger.Lost, list.Scope) {
		return
	}
	c.log.Warn("commands that were published before the fleet's ledger was lost are not carried out", "scope", list.Scope, "serial", list.Serial)
	if list.Scope == c.deviceScope() {
		done := c.ledger.Scopes[list.Scope].Done
		for i := range list.List {
			if list.List[i].Serial > done { // a crash, and a newer list: it is carried out
				continue
			}
			if err := c.answerLost(ctx, &list.List[i]); err != nil {
				c.log.Warn("command has no result", "command", list.List[i].ID, "error", err)
			}
		}
	}
	lost := c.ledger.Lost
	c.ledger.Lost = slices.DeleteFunc(slices.Clone(lost), func(s string) bool { return s == list.Scope })
	if err := c.save(); err != nil {
		c.ledger.Lost = lost
		c.log.Error("fleet's ledger is not durable; it is tried again", "error", err)
	}
}

func (c *Channel) answerLost(ctx context.Context, one *document.Command) error {
	f := c.ledger.Scopes[c.deviceScope()]
	_, _, err := c.get(ctx, depot.Result(c.Gateway, c.deviceScope(), f.Since, one.Serial), "")
	if err == nil || errors.Is(err, bucket.ErrTooLarge) {
		return nil
	}
	if !errors.Is(err, bucket.ErrNotFound) {
		return err
	}
	o := &order{Scope: c.deviceScope(), Since: f.Since, Serial: one.Serial, ID: one.ID, Do: one.Do, SHA256: commandDigest(one), Command: one}
	if _, err := disk.ReadFile(c.fs, c.resultPath(o)); err == nil { // it was carried out, and its result not sent
		o.Ended, o.Command, o.Settled = true, nil, true
		c.ledger.Orders = append(c.ledger.Orders, o)
		return nil
	}
	return c.enter(o, f.Done, Outcome{Result: document.ResultFailed, Detail: lostDetail})
}
