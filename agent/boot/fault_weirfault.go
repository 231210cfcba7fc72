//go:build weirfault

package boot

import "os"

// plantedFault: with WEIR_BOOT_FAULT=no-sync a slot's program is not synced before it counts as verified. tests/device must find it.
func plantedFault() fault { return fault(os.Getenv("WEIR_BOOT_FAULT")) }
