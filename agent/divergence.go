package agent

import "sync"

// divergence counts results of a sink that were made again and differ from what its upstream holds (DESIGN of the outbox: chains are compared).
type divergence struct {
	count uint64
	seq   uint64 // where the latest was found: the differing result is this one or one before it
}

// divergences outlive the attempts of a pipeline: a restart must not hide one.
type divergences struct {
	mu  sync.Mutex
	all map[[2]string]divergence // by pipeline and sink
}

func (d *divergences) add(pipeline, sink string, seq uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.all == nil {
		d.all = map[[2]string]divergence{}
	}
	found := d.all[[2]string{pipeline, sink}]
	d.all[[2]string{pipeline, sink}] = divergence{count: found.count + 1, seq: seq}
}

func (d *divergences) of(pipeline, sink string) divergence {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.all[[2]string{pipeline, sink}]
}
