//go:build !nocentral

package main

import (
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/upgrade"
)

// openBackend is what puts programs into place; nil: nothing does. end stops this process as SIGTERM does.
func openBackend(cfg *config.Config, end func()) (upgrade.Backend, error) {
	if b := plantedBackend(end); b != nil {
		return b, nil
	}
	return nil, nil
}
