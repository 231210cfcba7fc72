//go:build weirfault

package mqtt

import (
	"os"
	"strconv"
)

// plantedFaults are those that the environment asks for: the crash run must find them.
func plantedFaults() faults {
	name := os.Getenv("WEIR_FAULT")
	return faults{ackEarly: name == "ack-early", idAlone: name == "dedup-id-alone"}
}

// plantedAnchors: WEIR_ANCHOR_EVERY=n is no fault: an anchor is due after n message records, so that a short run has many.
func plantedAnchors(p anchorPolicy) anchorPolicy {
	if n, err := strconv.ParseInt(os.Getenv("WEIR_ANCHOR_EVERY"), 10, 64); err == nil {
		return anchorPolicy{records: n, span: 4 * n, perItem: 1}
	}
	return p
}
