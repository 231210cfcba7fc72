//go:build weirfault

package log

import (
	"os"
	"path/filepath"
	"time"
)

// plantedFaults are those that the environment asks for: the crash run must find them.
func plantedFaults() faults {
	name := os.Getenv("WEIR_FAULT")
	f := faults{tailNotSynced: name == "tail-not-synced", ackEarly: name == "ack-before-sync"}
	if once, asked := os.LookupEnv("WEIR_HANG_JOURNAL"); asked {
		f.hang = func(dir string) { hangOnce(dir, once) }
	}
	return f
}

// hangOnce: WEIR_HANG_JOURNAL=FILE. A sync of the agent's journal does not return, once: if the file can be removed. The watchdog must find it.
func hangOnce(dir, file string) {
	if filepath.Base(dir) == "journal" && os.Remove(file) == nil {
		time.Sleep(24 * time.Hour)
	}
}
