package clock

import "time"

// floor is the time below which the wall clock is taken to be wrong, in Unix ms.
type floor struct {
	hard int64 // surely past: the build
	soft int64 // what a synchronised clock once said
	// insisted is the monotonic ns since when the time service has said that a clock below the soft floor is right; 0 when it does not.
	insisted int64
}

// insistFor is how long the time service must say that a clock below the soft floor is right: whoever feeds a device a false time for a moment does not move
// the floor back, and one that was ahead by years for an hour does not leave a device that distrusts its clock for years.
const insistFor = 10 * time.Minute

func (f *floor) ms() int64 { return max(f.hard, f.soft) }

// slack is how far a clock may be set back, by a time service that corrects what it has said, without being distrusted.
const slack = int64(time.Minute / time.Millisecond)

// judge says whether the wall clock (Unix ms) is to be believed at a monotonic time (ns).
func (f *floor) judge(wall, monotonic int64, synced bool) bool {
	switch {
	case !synced || wall < f.hard:
		f.insisted = 0
		return false
	case wall >= f.soft:
		f.insisted, f.soft = 0, max(f.soft, wall-slack) // a run may last for years
		return true
	case f.insisted == 0:
		f.insisted = max(monotonic, 1)
		return false
	case monotonic-f.insisted < int64(insistFor):
		return false
	}
	f.soft, f.insisted = 0, 0
	return true
}
