//go:build !weirfault && !nocentral

package main

import (
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/rollout"
)

// plantedBackend is of tests; this build has none.
func plantedBackend(*config.Config, func()) upgrade.Backend { return nil }

// plantedBlindness is an operator who overlooks failures; this build has none.
func plantedBlindness(*rollout.Facts) {}
