package agent

import (
	"sync"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/systemd"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// working is what takes long in pipelines just now, for status and log.
type working struct {
	mu    sync.Mutex
	of    map[string]api.Progress // by pipeline
	steps map[string]uint64       // by pipeline: how often a start or an end of it got on
}

// step notes that a start or an end of a pipeline got on, or that it waits for a disk that is full and tries again. The watchdog asks.
func (w *working) step(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.steps == nil {
		w.steps = map[string]uint64{}
	}
	w.steps[name]++
}

// stepsOf moves while starts and ends of a pipeline get on.
func (w *working) stepsOf(name string) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.steps[name]
}

func (a *attempt) step() { a.agent.working.step(a.spec.Name.Value) }

// workingLogEvery is a human rate: a line says that it goes on, and that it is not stuck.
const workingLogEvery = 5 * time.Second

// work begins something long in a pipeline: told hears how far it is, of total (0: not known), and end takes it off the board. What takes longer than
// workingLogEvery is in the log, and the service manager is asked for more time. told is for one goroutine at a time.
func (a *attempt) work(what, unit string, total uint64) (told func(done uint64), end func()) {
	w, name := &a.agent.working, a.spec.Name.Value
	last := time.Now()
	put := func(done uint64) {
		w.step(name)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.of == nil {
			w.of = map[string]api.Progress{}
		}
		w.of[name] = api.Progress{What: what, Unit: unit, Done: done, Total: total}
	}
	put(0)
	told = func(done uint64) {
		put(done)
		if time.Since(last) < workingLogEvery {
			return
		}
		last = time.Now()
		a.log.Info("still working", "what", what, "done", done, "total", total, "unit", unit)
		systemd.Extend(4 * workingLogEvery)
	}
	return told, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.of, name)
	}
}

// progressOf gives what takes long in a pipeline; nil: nothing.
func (w *working) progressOf(name string) *api.Progress {
	w.mu.Lock()
	defer w.mu.Unlock()
	p, ok := w.of[name]
	if !ok {
		return nil
	}
	return &p
}

// counted is a state source that tells how many entries were read.
type counted struct {
	pipeline.StateSource
	told func(n uint64)
	n    uint64
}

// countedEvery is how many entries are read between two looks at the clock.
const countedEvery = 4096

// Every implements pipeline.WholeSource, for a source that does.
func (c *counted) Every(table func(uid, name string, written state.Spec) (func(key, sub, val []byte) error, error)) error {
	return c.StateSource.(pipeline.WholeSource).Every(func(uid, name string, written state.Spec) (func(key, sub, val []byte) error, error) {
		load, err := table(uid, name, written)
		if load == nil || err != nil {
			return load, err
		}
		return func(key, sub, val []byte) error {
			if c.n++; c.n%countedEvery == 0 {
				c.told(c.n)
			}
			return load(key, sub, val)
		}, nil
	})
}
