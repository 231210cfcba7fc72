//go:build !nocentral

package main

import (
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/agent/upgrade/slots"
)

// openBackend is what puts programs into place; nil: nothing does. end stops this process as SIGTERM does.
func openBackend(cfg *config.Config, end func()) (upgrade.Backend, error) {
	if b := plantedBackend(end); b != nil {
		return b, nil
	}
	if cfg.Upgrade.Backend != config.BackendSelf {
		return nil, nil
	}
	return slots.Standard(cfg.StateDir.Value, end)
}
