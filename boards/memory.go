package boards

import "fmt"

const (
	// memoryShare of what the service may use becomes the collector's soft limit; the rest is for stacks, mapped files and the page cache that is accounted to
	// the service.
	memoryShare = 0.7
	// ramShare of the machine's memory is what the agent leaves to itself where nothing else is said.
	ramShare = 0.5
)

// MemoryLimit is pure: the collector's soft limit (GOMEMLIMIT) in bytes on a machine, and why; 0: nothing is known. It is the profile's, or less where the cgroup
// or the machine has less. A cgroup with the limits of the profile's own unit suits the profile's value.
func MemoryLimit(p *Profile, f Facts) (bytes int64, why string) {
	least, of := int64(0), ""
	take := func(n int64, what string) {
		if n > 0 && (least == 0 || n < least) {
			least, of = n, what
		}
	}
	own := p != nil && p.Limits.GOMEMLIMIT > 0
	if !own || f.CgroupHigh < p.Limits.High.Bytes {
		take(f.CgroupHigh, "the cgroup's memory.high")
	}
	if !own || f.CgroupMax < p.Limits.Max.Bytes {
		take(f.CgroupMax, "the cgroup's memory.max")
	}
	take(int64(float64(f.RAM)*ramShare), "half of the machine's memory")
	limit := int64(float64(least) * memoryShare)
	if own && (least == 0 || p.Limits.GOMEMLIMIT <= limit) {
		return p.Limits.GOMEMLIMIT, "board " + p.ID
	}
	if least == 0 {
		return 0, "nothing tells how much there is"
	}
	return limit, fmt.Sprintf("%.0f %% of %s", memoryShare*100, of)
}
