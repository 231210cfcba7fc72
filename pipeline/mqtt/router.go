package mqtt

import "github.com/weirstream/weir/pipeline/topic"

const (
	// routesMax bounds the topic cache: at 60 bytes a topic it stays below 1 MiB.
	routesMax = 4096
	// routeMissesMax: so many misses with a full cache mean that the topics changed; it begins anew.
	routeMissesMax = 16 * routesMax
)

// router finds the source of a topic. The tap's reader owns it.
type router struct {
	filters []string
	cache   map[string]int
	misses  int
	hit     bool // the topic asked for last was in the cache, which holds well-formed ones only
}

func newRouter(filters []string) *router {
	return &router{filters: filters, cache: make(map[string]int)}
}

// find returns the index of the first filter that matches, -1 when none does. It allocates only when it meets a topic for
// the first time.
func (r *router) find(name []byte) int {
	if i, ok := r.cache[string(name)]; ok {
		r.hit = true
		return i
	}
	r.hit = false
	found := -1
	for i, f := range r.filters {
		if topic.Match(f, name) {
			found = i
			break
		}
	}
	if topic.Fault(name) != "" {
		return found
	}
	if len(r.cache) >= routesMax {
		if r.misses++; r.misses < routeMissesMax {
			return found
		}
		clear(r.cache)
		r.misses = 0
	}
	r.cache[string(name)] = found
	return found
}
