//go:build weirfault

package state

import "os"

// plantedForget: with WEIR_FAULT=forget-dirty an aborted checkpoint's changes are forgotten. The crash harness must find
// it. Set once, before main.
var plantedForget = os.Getenv("WEIR_FAULT") == "forget-dirty"
