//go:build weirfault

package log

import (
	"os"
	"path/filepath"
)

// plantedFaults are those that the environment asks for: the crash run and the power cuts must find them. The syncs that are left out are those of the journal
// alone.
func plantedFaults(dir string) faults {
	name, journal := os.Getenv("WEIR_FAULT"), filepath.Base(dir) == "journal"
	return faults{
		tailNotSynced: name == "tail-not-synced", ackEarly: name == "ack-before-sync",
		noSync: journal && name == "not-synced", reuseUnsynced: journal && name == "reuse-not-synced",
	}
}
