//go:build !weirfault

package outbox

// plantedMiscount is a fault in the ledger; this build has none.
const plantedMiscount = false
