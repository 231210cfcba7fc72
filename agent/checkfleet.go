//go:build !nocentral

package agent

import (
	"fmt"
	"path/filepath"

	"github.com/weirstream/weir/agent/channel"
	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/store/disk"
)

// fleet reads what this gateway has done for its fleet. Without it nobody directs the gateway, and its pipelines run. With repair a damaged one is kept under another name, and the new one has every command that is published when it is
// read for one that may have been carried out: none runs twice.
func (c *checker) fleet() error {
	dir := filepath.Join(c.cfg.StateDir.Value, "fleet")
	err := channel.Unreadable(c.fs, dir)
	switch {
	case err == nil:
		return nil
	case record.IsNewer(err):
		c.report.line("nobody directs this gateway from afar: %v", err)
		return nil
	case ofDisk(err): // what lies there may be whole
		return fmt.Errorf("the fleet's ledger: %w", err)
	}
	if c.report.damage("the fleet's ledger: %v", err); !c.repair {
		return nil
	}
	name := channel.Ledger(dir)
	b, err := disk.ReadFile(c.fs, name)
	if err != nil {
		return fmt.Errorf("read the fleet's ledger: %w", err)
	}
	to, err := c.asideName(name)
	if err == nil {
		err = disk.WriteFileAtomic(c.fs, to, b)
	}
	if err == nil {
		err = channel.Renew(c.fs, dir, channel.Scopes(c.cfg.Fleet.Channel.Value, c.agent.gateway())...)
	}
	if err != nil {
		return fmt.Errorf("make the fleet's ledger anew: %w", err)
	}
	c.report.repaired("the damaged ledger of the fleet is kept as %s, and made anew: commands that are published already are not carried out, and documents count down to the root's floor", filepath.Base(to))
	return nil
}
