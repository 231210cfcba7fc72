//go:build !weirfault

package exec

// plantedMerge is the planted fault "merge by arrival"; this build has none.
const plantedMerge = false
