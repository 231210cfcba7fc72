// Package fleet is the proof of a fleet: gateways as processes (weir behind weir-boot, backend self, a supervisor in the place of systemd) with one object store
// (S3: versitygw) and one real mosquitto, which is the doorbell and the source of all messages. They are directed by the operator's own commands. Every gateway
// runs a small pipeline with state all the while; the oracle counts what the receiver holds in the end: lost 0, duplicate 0.
//
// TestFleet has a good release in three waves by two operators at once, with gateways that are away and join later, processes killed in the middle of it; two
// bad releases that halt at the limit; commands, each once; a roll-out back to an older release. TestAttacks has what somebody can do who may write to the store and
// to the broker. TestFaultsAreFound plants a mistake for each claim.
//
// One run with a hundred gateways, 15 minutes on two cores that had to do with little else: 547 starts of agents, 179 of them ended by kill -9; 683 messages to each gateway, 71,800 rows of 200 streams:
// lost 0, duplicate 0. The crashing release halted behind 6 failures of 30, the one that is never ready behind the first.
//
// `make fleet` runs it long (WEIR_FLEET=long), with a hundred gateways; `go test` a short form with eight, without the planted mistakes.
package fleet
