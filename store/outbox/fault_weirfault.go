//go:build weirfault

package outbox

import "os"

// plantedMiscount: WEIR_FAULT=ledger-miscount. Of each confirmation one result is not counted: the check of the ledger must find it.
var plantedMiscount = os.Getenv("WEIR_FAULT") == "ledger-miscount"
