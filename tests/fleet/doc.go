// Package fleet is the proof of a fleet: gateways as processes (weir behind weir-boot, backend self, a supervisor in the place of systemd) with one object store
// (S3: versitygw) and one real mosquitto, which is the doorbell and the source of all messages. They are directed by the operator's own commands. Every gateway
// runs a small pipeline with state all the while; the oracle counts what the receiver holds in the end: lost 0, duplicate 0.
//
// TestFleet has a good release in three waves by two operators at once, with gateways that are away and join later, processes killed in the middle of it; two
// bad releases that halt at the limit; commands, each once; a roll-out back to an older release. TestAttacks has what somebody can do who may write to the store and
// to the broker. TestFaultsAreFound plants a mistake for each claim.
//
// `make fleet` runs it long (WEIR_FLEET=long), with a hundred gateways; `go test` a short form with eight, without the planted mistakes.
package fleet
