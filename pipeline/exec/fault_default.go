//go:build !weirfault

package exec

// arrival is the planted fault "merge by arrival"; this build has none.
type arrival struct{}

func (arrival) delay(inputs []*edge) []*edge { return inputs }

func (arrival) planted() bool { return false }
