//go:build !weirfault && !nocentral

package main

import "github.com/weirstream/weir/agent/upgrade"

// plantedBackend is of tests; this build has none.
func plantedBackend(func()) upgrade.Backend { return nil }
