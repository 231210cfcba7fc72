package links

import "sync"

// Divergence counts results of a sink that were made again and differ from what its upstream holds (DESIGN of the outbox: chains are compared).
type Divergence struct {
	Count uint64
	Seq   uint64 // where the latest was found: the differing result is this one or one before it
}

// Divergences outlive the attempts of a pipeline: a restart must not hide one.
type Divergences struct {
	mu  sync.Mutex
	all map[[2]string]Divergence // by pipeline and sink
}

// Add counts one more.
func (d *Divergences) Add(pipeline, sink string, seq uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = map[[2]string]Divergence{}
	}
	found := d.all[[2]string{pipeline, sink}]
	d.all[[2]string{pipeline, sink}] = Divergence{Count: found.Count + 1, Seq: seq}
}

// Of is what was counted of a sink.
func (d *Divergences) Of(pipeline, sink string) Divergence {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all[[2]string{pipeline, sink}]
}
