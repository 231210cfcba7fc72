//go:build !weirfault

package exec

// otherResult is the planted fault "a result that differs at each run"; this build has none.
func otherResult(payload []byte) []byte { return payload }

// plantedHang is the planted fault "a task that does not return"; this build has none.
func plantedHang() {}

// arrival is the planted fault "merge by arrival"; this build has none.
type arrival struct{}

func (arrival) delay(inputs []*edge) []*edge { return inputs }

func (arrival) planted() bool { return false }
