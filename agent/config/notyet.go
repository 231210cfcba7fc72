package config

// Settings that belong to the design and that this release does not act on are refused by name: what is accepted has an effect.

var checkpointNotYet = map[string]string{
	"incremental":  "checkpoints hold what changed since the last one",
	"externalized": "the checkpoints of a pipeline that left the config stay in state_dir",
}

// flinkNotYet are Flink's names of those settings, with what holds instead.
var flinkNotYet = map[string]string{
	"execution.checkpointing.incremental":                       checkpointNotYet["incremental"],
	"state.backend.incremental":                                 checkpointNotYet["incremental"],
	"execution.checkpointing.externalized-checkpoint-retention": checkpointNotYet["externalized"],
}

// notYet makes an object's answer to keys that come with a later release.
func notYet(instead map[string]string) func(key string) string {
	return func(key string) string { return instead[key] }
}
