//go:build weirfault

package outbox

import "os"

// plantedMiscount: WEIR_FAULT=ledger-miscount. Of each confirmation one result is not counted: the check of the ledger must find it.
var plantedMiscount = os.Getenv("WEIR_FAULT") == "ledger-miscount"

// plantedLive: WEIR_FAULT=apply-live. Results of a plan on probation leave: when it fails, upstream has them.
var plantedLive = os.Getenv("WEIR_FAULT") == "apply-live"

// plantedEarly: WEIR_FAULT=confirm-early. What is handed to the sender counts as confirmed, before upstream has answered. The power cuts must find it.
var plantedEarly = os.Getenv("WEIR_FAULT") == "confirm-early"

// plantedFaults: WEIR_FAULT=outbox-trim-early. The log is trimmed before the marks are durable that prove what is gone to be upstream.
func plantedFaults() faults {
	return faults{trimBeforeMarks: os.Getenv("WEIR_FAULT") == "outbox-trim-early"}
}
