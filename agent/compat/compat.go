// Package compat lists what this build reads and writes that outlives it: formats on flash and at the central store, and kinds of state. A release carries the list in its signed manifest, and a gateway compares it with
// that of the program that runs before anything is stopped (agent/upgrade, Compatible). compat_test.go finds the constants in the sources and keeps the list complete and true: they stay with their packages.
package compat

import (
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/pipeline/plan"
)

// Format is something that is kept.
type Format struct {
	Name string
	document.Versions
	// Constant is where the version stands: package.constant; with * the highest one of that prefix: kinds of records, of which an earlier build does not know the newer ones. file#Reads is a record.Form's.
	Constant string
}

func upTo(least, most uint64) document.Versions {
	return document.Versions{Least: least, Most: most, Writes: most}
}

// formats are in the order of the way of a message. What rises here keeps a gateway from going back, unless a release before it has read it without writing it.
var formats = []Format{
	{"log frames", upTo(1, 1), "store/log.frameVersion"},
	{"log frame flags", upTo(0, 63), "store/log.flagsKnown"}, // bits: one more is a higher number
	{"journal entries", upTo(1, 11), "pipeline.Entry*"},
	{"mqtt session records", upTo(1, 1), "pipeline/mqtt.recordVersion"},
	{"outbox records", upTo(2, 2), "store/outbox.recordVersion"},
	{"outbox record kinds", upTo(1, 9), "store/outbox.kind*"},
	{"dead letters", upTo(1, 2), "store/deadletter.recordVersion"},
	{"dead letter kinds", upTo(1, 4), "store/deadletter.kind*"},
	{"checkpoint records", upTo(1, 1), "snapshot.recordVersion"},
	{"checkpoint record kinds", upTo('B', 'S'), "snapshot.kind*"},
	{"checkpoint manifest", upTo(1, 1), "snapshot.manifestVersion"},
	{"checkpoint base", upTo(1, 1), "snapshot.baseVersion"},
	{"checkpoint catalog", upTo(1, 1), "snapshot.catalogFormat"},
	{"checkpoints in bbolt", upTo(1, 1), "snapshot.boltFormat"},
	{"savepoint", upTo(1, 1), "snapshot/savepoint.Version"},
	{"registry of pipelines", upTo(1, 1), "agent/statedir/registry.go#Reads"},
	{"small files of a pipeline", upTo(1, 1), "agent/statedir/small.go#Reads"},
	{"identity", upTo(1, 1), "agent/identity.recordVersion"},
	{"apply record", upTo(1, 1), "agent/apply.format"},
	{"flash record", upTo(1, 1), "agent/flash.recordVersion"},
	{"upgrade record", upTo(1, 1), "agent/upgrade.recordFormat"},
	{"upgrade record file", upTo(1, 1), "agent/upgrade.fileVersion"},
	{"upgrade note of rauc", upTo(1, 1), "agent/upgrade/rauc.noteFormat"},
	{"fleet ledger", upTo(1, 1), "agent/channel/ledger.go#Reads"},
	{"central claim", upTo(1, 1), "uplink/central.claimVersion"},
	{"central head", upTo(1, 1), "uplink/central.headVersion"},
	{"central index", upTo(1, 1), "uplink/central.indexVersion"},
	{"central records", upTo(1, 1), "uplink/central.recordsVersion"},
	{"central piece", upTo(1, 1), "uplink/central.pieceVersion"},
	{"central manifest", upTo(1, 1), "uplink/central.manifestVersion"},
	{"central record", upTo(1, 1), "uplink/central.recordVersion"},
	{"objects head", upTo(1, 1), "uplink/objectsink.headVersion"},
	{"postgres progress row", upTo(1, 1), "uplink/postgres.rowVersion"},
	{"receiver progress row", upTo(1, 1), "uplink/receiver.rowVersion"},
}

// kinds are the types of state tables, as savepoints name them.
var kinds = map[string]document.Versions{
	"exec.ledger": upTo(1, 1), "exec.source": upTo(1, 2),
	"join.latest": upTo(1, 1), "join.next": upTo(1, 1), "join.row": upTo(1, 1),
	"ops.absence": upTo(1, 1), "ops.absence.event": upTo(1, 1), "ops.alarm": upTo(1, 1), "ops.changed": upTo(1, 1), "ops.counter": upTo(1, 1), "ops.counter.event": upTo(1, 1), "ops.deadband": upTo(1, 1),
	"ops.dedup": upTo(1, 1), "ops.delta": upTo(1, 1), "ops.lag": upTo(1, 1), "ops.sample": upTo(1, 1), "ops.sort": upTo(1, 1), "ops.throttle": upTo(1, 1), "ops.throttle.event": upTo(1, 1),
	"ops.zscore": upTo(1, 2), "ops.zscore.blocks": upTo(1, 1),
	"window.acc": upTo(1, 1), "window.clock": upTo(1, 1), "window.count": upTo(1, 1), "window.fired": upTo(1, 1), "window.list": upTo(1, 1), "window.pane": upTo(1, 1), "window.rows": upTo(1, 1),
	"window.run": upTo(1, 1), "window.seen": upTo(1, 1), "window.session": upTo(1, 1), "window.sketch": upTo(1, 1), "window.text": upTo(1, 1),
}

// Formats are all that is kept, in the order of the way of a message.
func Formats() []Format { return append([]Format(nil), formats...) }

// Current is what this build reads and writes.
func Current() document.Compat {
	c := document.Compat{Formats: map[string]document.Versions{}, State: map[string]document.Versions{}, Behaviours: map[string]uint64{}}
	for _, f := range formats {
		c.Formats[f.Name] = f.Versions
	}
	for kind, v := range kinds {
		c.State[kind] = v
	}
	for step, v := range plan.Behaviours() {
		c.Behaviours[step] = uint64(v)
	}
	return c
}
