//go:build !weirfault

package outbox

// plantedMiscount is a fault in the ledger; this build has none.
const plantedMiscount = false

// plantedLive is a fault in what an apply holds back; this build has none.
const plantedLive = false

// plantedEarly is a result that counts as confirmed when it is handed out; this build has none.
const plantedEarly = false

// plantedFaults are those that the environment asks for; this build has none.
func plantedFaults() faults { return faults{} }
