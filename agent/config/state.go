package config

import (
	"math"
	"time"

	"github.com/weirstream/weir/store/pebblekv"
)

// State are a pipeline's defaults for the state of its steps, and where the state is.
type State struct {
	Backend string // memory, pebble
	// Memory is what the backend pebble may use, in bytes: hot entries, memtables, block cache.
	Memory  int64
	TTL     time.Duration // 0: never
	MaxKeys int           // per step; 0: no limit
}

// The words of state.backend and checkpoint.store.
const (
	BackendMemory = "memory"
	BackendPebble = "pebble"
	StorePebble   = "pebble"
)

// pebbleBuilt tells whether this binary has Pebble. Tests change it.
var pebbleBuilt = pebblekv.Built

var stateObject = &object[State]{section: section{what: "state", list: []*setting{
	set("backend", at(func(s *State) *string { return &s.Backend }).is(choiceKind{words: []string{BackendMemory, BackendPebble}, means: map[string]string{"hashmap": BackendMemory, "rocksdb": BackendPebble}}),
		"Where the state is while the pipeline runs. memory: all of it. pebble: on flash, as much as fits state.memory in memory; for more keys than the memory holds.",
		byDefault(BackendMemory), flink("state.backend.type")),
	set("memory", at(func(s *State) *int64 { return &s.Memory }).is(sizeKind{least: 4 << 20, most: 64 << 30}),
		"backend pebble: memory for the state of the pipeline. It says nothing of the rest of the pipeline.", byDefault("32MiB"), flink("state.backend.rocksdb.memory.fixed-per-slot")),
	set("ttl", at(func(s *State) *time.Duration { return &s.TTL }).is(durationKind{never: "never"}),
		"State of a key that was not written for so long is dropped.", byDefault("never"), flink("table.exec.state.ttl")),
	set("max_keys", at(func(s *State) *int { return &s.MaxKeys }).is(intKind{0, math.MaxInt32}),
		"Most keys per step; rows of further keys become dead letters. 0: no limit.", byDefault("1000000")),
}}, check: checkState}

func checkState(r *reader, n *node, v *State) {
	for _, e := range n.entries {
		switch {
		case e.key.text == "memory" && v.Backend != BackendPebble:
			r.problems.Add(e.key.pos, "", "memory bounds the backend pebble; the backend memory holds all keys, which max_keys bounds",
				"memory is no setting of the backend %s", v.Backend)
		case e.key.text == "backend" && v.Backend == BackendPebble && !pebbleBuilt:
			r.problems.Add(e.value.pos, "", "the backend memory, or a weir that was built without the tag nopebble",
				"the backend pebble is not in this weir: it was built with the tag nopebble")
		}
	}
}

// checkStores refuses a checkpoint store that does not go with the backend.
func checkStores(r *reader, n *node, p *Pipeline) {
	if p.Checkpoint.Store != StorePebble || p.State.Backend == BackendPebble {
		return
	}
	pos := n.pos
	for _, e := range n.entries {
		if e.key.text != "checkpoint" {
			continue
		}
		for _, s := range e.value.entries {
			if s.key.text == "store" {
				pos = s.value.pos
			}
		}
	}
	r.problems.Add(pos, "", "the store pebble goes with state: {backend: pebble}; log and bbolt go with any backend",
		"the checkpoint store pebble with the state backend %s", p.State.Backend)
}
