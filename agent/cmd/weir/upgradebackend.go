//go:build !nocentral

package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/agent/upgrade/rauc"
	"github.com/weirstream/weir/agent/upgrade/slots"
)

// openBackend is what puts programs into place; nil: nothing does. end stops this process as SIGTERM does.
func openBackend(cfg *config.Config, end func()) (upgrade.Backend, error) {
	if b := plantedBackend(cfg, end); b != nil {
		return b, nil
	}
	switch cfg.Upgrade.Backend {
	case config.BackendSelf:
		return slots.Standard(cfg.StateDir.Value, end)
	case config.BackendRauc:
		bootID, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		if err != nil {
			return nil, fmt.Errorf("ask for the name of this boot: %w", err)
		}
		return rauc.Standard(cfg.StateDir.Value, strings.TrimSpace(string(bootID))), nil
	}
	return nil, nil
}
