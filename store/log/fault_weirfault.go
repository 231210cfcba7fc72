//go:build weirfault

package log

import "os"

// plantedFaults are those that the environment asks for: the crash run must find them.
func plantedFaults() faults {
	name := os.Getenv("WEIR_FAULT")
	return faults{tailNotSynced: name == "tail-not-synced", ackEarly: name == "ack-before-sync"}
}
