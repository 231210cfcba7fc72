package pipeline

import "sync"

// Slabs is memory for slots that the steps of many pipelines take in turn: each needs it during a batch only, and few work at once. What is
// not needed goes with the next garbage collection. Safe for several goroutines; a nil one makes what is asked for and keeps nothing.
type Slabs struct{ free sync.Pool }

// take gives slabValues zero values.
func (s *Slabs) take() []Value {
	if s != nil {
		if p, ok := s.free.Get().(*[slabValues]Value); ok {
			return p[:]
		}
	}
	return new([slabValues]Value)[:]
}

// give takes a slab of zero values back. One of another size is left to the garbage collector.
func (s *Slabs) give(slab []Value) {
	if len(slab) == slabValues {
		s.free.Put((*[slabValues]Value)(slab))
	}
}
