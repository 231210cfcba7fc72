// Package rollout decides how a roll-out goes on from what the gateways have reported: who is in which wave, when a wave is over, when to halt. It is pure: the document, what is known
// of the gateways and the store's clock go in, a verdict and the next document come out. Whoever publishes acts on it (agent/cmd/weir). It has no goroutine, reads no clock, does no I/O.
//
// That silence counts as failure is hawkBit's lesson (eclipse-hawkbit/hawkbit issue 693): a fleet that dies in the switch looks as if it were slow.
package rollout
