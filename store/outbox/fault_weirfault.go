//go:build weirfault

package outbox

import "os"

// plantedMiscount: WEIR_FAULT=ledger-miscount. Of each confirmation one result is not counted: the check of the ledger must find it.
var plantedMiscount = os.Getenv("WEIR_FAULT") == "ledger-miscount"

// plantedLive: WEIR_FAULT=apply-live. Results of a plan on probation leave: when it fails, upstream has them.
var plantedLive = os.Getenv("WEIR_FAULT") == "apply-live"
