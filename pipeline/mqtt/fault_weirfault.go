//go:build weirfault

package mqtt

import "os"

// plantedFaults are those that the environment asks for: the crash run must find them.
func plantedFaults() faults {
	name := os.Getenv("WEIR_FAULT")
	return faults{ackEarly: name == "ack-early", idAlone: name == "dedup-id-alone"}
}
