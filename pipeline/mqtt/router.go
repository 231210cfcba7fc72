package mqtt

import (
	"github.com/cespare/xxhash/v2"

	"github.com/weirstream/weir/pipeline/topic"
)

const (
	// routesMax bounds the topic cache: at 100 bytes a topic it stays below 1 MiB.
	routesMax = 4096
	// routesMin is the cache's first size; it doubles when it is half full.
	routesMin = 64
	// routeProbes bounds the search, also for topics that somebody made to collide.
	routeProbes = 16
	// routeMissesMax: so many misses with a full cache mean that the topics changed; it begins anew.
	routeMissesMax = 16 * routesMax
)

// router finds the source of a topic. The tap's reader owns it.
type router struct {
	filters []string
	routes  []route // an open hash table, a power of two long, at most half full
	used    int
	misses  int
	missed  route // the last one that was not in the cache
}

// route is what is known of a topic. It is in the cache only when the topic is well-formed.
type route struct {
	topic  string
	hash   uint64 // of the topic: the content key needs it, too
	source int    // index of the first filter that matches, -1 when none does
	fault  string // why the topic is ill-formed; "" when it is not
}

func newRouter(filters []string) *router {
	return &router{filters: filters, routes: make([]route, routesMin)}
}

// find returns the route of a topic, valid until the next call and not to be changed. It allocates only when it meets a well-formed
// topic for the first time.
func (r *router) find(name []byte) *route {
	hash := xxhash.Sum64(name)
	for i := range uint64(routeProbes) {
		e := &r.routes[(hash+i)&uint64(len(r.routes)-1)]
		switch {
		case e.hash == hash && e.topic == string(name) && len(name) > 0:
			return e
		case e.topic == "": // no well-formed topic is empty
			return r.miss(name, hash)
		}
	}
	return r.miss(name, hash)
}

func (r *router) miss(name []byte, hash uint64) *route {
	r.missed = route{hash: hash, source: -1, fault: topic.Fault(name)}
	for i, f := range r.filters {
		if topic.Match(f, name) {
			r.missed.source = i
			break
		}
	}
	if r.missed.fault == "" && r.room() {
		e := r.missed
		e.topic = string(name)
		r.add(e)
		r.used++
	}
	return &r.missed
}

// room makes room for one more topic, by a larger table or, after many misses, by a new one; false when there is none.
func (r *router) room() bool {
	if r.used >= routesMax {
		if r.misses++; r.misses < routeMissesMax {
			return false
		}
		clear(r.routes)
		r.used, r.misses = 0, 0
	}
	if 2*r.used < len(r.routes) {
		return true
	}
	before := r.routes
	r.routes = make([]route, 2*len(before))
	for _, e := range before {
		if e.topic != "" {
			r.add(e)
		}
	}
	return true
}

// add puts a route in, unless all its places are taken: then the topic is looked up anew each time.
func (r *router) add(e route) {
	for i := range uint64(routeProbes) {
		at := &r.routes[(e.hash+i)&uint64(len(r.routes)-1)]
		if at.topic == "" {
			*at = e
			return
		}
	}
}
