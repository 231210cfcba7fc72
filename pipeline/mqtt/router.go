package mqtt

import "unsafe"

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
func (r *router) find(topic []byte) int {
	if i, ok := r.cache[string(topic)]; ok {
		r.hit = true
		return i
	}
	r.hit = false
	text := unsafe.String(unsafe.SliceData(topic), len(topic)) // read only, and not kept
	found := -1
	for i, f := range r.filters {
		if Match(f, text) {
			found = i
			break
		}
	}
	if topicFault(topic) != "" {
		return found
	}
	if len(r.cache) >= routesMax {
		if r.misses++; r.misses < routeMissesMax {
			return found
		}
		clear(r.cache)
		r.misses = 0
	}
	r.cache[string(topic)] = found
	return found
}
