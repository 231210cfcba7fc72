// Package equality is replay equality over whole plans: random pipelines, as YAML through agent/config, over random journals, with
// checkpoints, aborts, crashes and restores at random. Whatever happened on the way, what a sink was given under a sequence is what a single
// undisturbed run gives under it, byte for byte.
package equality
