//go:build weirfault

package log

import (
	"os"
	"path/filepath"
	"time"
)

// plantedFaults are those that the environment asks for: the crash run and the power cuts must find them. The syncs that are left out are those of the journal
// alone.
func plantedFaults(dir string) faults {
	name, journal := os.Getenv("WEIR_FAULT"), filepath.Base(dir) == "journal"
	f := faults{
		tailNotSynced: name == "tail-not-synced", ackEarly: name == "ack-before-sync",
		noSync: journal && name == "not-synced", reuseUnsynced: journal && name == "reuse-not-synced",
	}
	if once, asked := os.LookupEnv("WEIR_HANG_JOURNAL"); asked && journal {
		f.hang = func() { hangOnce(once) }
	}
	return f
}

// hangOnce: WEIR_HANG_JOURNAL=FILE. A sync of the agent's journal does not return, once: if the file can be removed. The watchdog must find it.
func hangOnce(file string) {
	if os.Remove(file) == nil {
		time.Sleep(24 * time.Hour)
	}
}
