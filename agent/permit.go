package agent

import (
	"maps"
	"sync"
)

// permit is what the operator allowed for one start, by pipeline. It is good once: what happens again later must be
// allowed again.
type permit struct {
	mu    sync.Mutex
	names map[string]bool
}

func newPermit(names map[string]bool) *permit {
	p := &permit{names: map[string]bool{}}
	maps.Copy(p.names, names)
	return p
}

func (p *permit) given(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.names[name]
}

// used takes the permission back. A repeat is harmless.
func (p *permit) used(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.names, name)
}

// extend gives a region what its pipeline was given.
func (p *permit) extend(pipeline, region string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.names[pipeline] {
		p.names[region] = true
	}
}
