//go:build !weirfault

package outbox

// plantedMiscount is a fault in the ledger; this build has none.
const plantedMiscount = false

// plantedLive is a fault in what an apply holds back; this build has none.
const plantedLive = false
