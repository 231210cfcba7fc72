package exec

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// pool divides the work of one task over its workers: the task's goroutine, which is worker 0, and helpers. Work is of two kinds. A fork (do) is
// work of the batch under way that the task waits for. The filler is work that can be done before its time, in small pieces: whoever would
// wait does a piece of it instead, so that no core stands still while there is anything to do. Only the task's goroutine calls do and await.
type pool struct {
	parts   int            // of a fork
	claimed []paddedUint64 // per part: the last fork in which somebody took it
	failed  []error        // per part of the fork under way
	work    func(part int) error
	fork    atomic.Uint64 // number of the fork under way, or of the last
	left    atomic.Int32  // its parts that have not ended
	// filler does a piece of the work ahead as that worker; false: there is none. Set before start, not changed.
	filler   func(worker int) bool
	sleepers []sleeper // per worker
	stopping atomic.Bool
	ended    sync.WaitGroup
}

type paddedUint64 struct {
	atomic.Uint64
	_ [56]byte // no cache line with the next one
}

// sleeper is where a worker waits when it has found nothing to do for a while.
type sleeper struct {
	asleep atomic.Bool
	wake   chan struct{} // holds one: who turns asleep to false puts it in
	_      [48]byte      // no cache line with the next one
}

// spins is how often a worker looks for work before it goes to sleep, letting other goroutines run in between. To wake somebody costs more than
// some of these looks, on the core that wakes and on the one that is woken.
const spins = 60

// newPool is for forks of n parts, by as many workers as there are cores for them at most: more would only take turns.
func newPool(n, cores int) *pool {
	p := &pool{parts: n, claimed: make([]paddedUint64, n), failed: make([]error, n), sleepers: make([]sleeper, min(n, cores))}
	for i := range p.sleepers {
		p.sleepers[i].wake = make(chan struct{}, 1)
	}
	return p
}

// workers are the task's goroutine and the helpers.
func (p *pool) workers() int { return len(p.sleepers) }

// start begins the helpers; the function that it returns ends them and waits until they have ended.
func (p *pool) start() (stop func()) {
	for i := 1; i < p.workers(); i++ {
		p.ended.Go(func() { p.help(i) })
	}
	return func() {
		p.stopping.Store(true)
		p.rouse()
		p.ended.Wait()
	}
}

// help is the life of a helper: parts of forks come before the filler.
func (p *pool) help(worker int) {
	stopping := func() bool { return p.stopping.Load() }
	for !stopping() {
		if !p.step(worker) {
			p.rest(worker, stopping)
		}
	}
}

// step does something as that worker, if there is anything.
func (p *pool) step(worker int) bool {
	return p.part(worker) || p.filler != nil && p.filler(worker)
}

// part takes a part of the fork under way that nobody has: its own first, which it had in the last fork too, so that what an instance works
// on stays in one core's cache; then one of a worker that has not come yet.
func (p *pool) part(worker int) bool {
	if p.left.Load() == 0 {
		return false
	}
	fork := p.fork.Load()
	for own := worker; own < p.parts; own += p.workers() {
		if p.take(own, fork) {
			return true
		}
	}
	for i := range p.parts {
		if p.take(i, fork) {
			return true
		}
	}
	return false
}

// take does a part if nobody has it. While one part has not ended the next fork does not begin, so that work belongs to this fork.
func (p *pool) take(part int, fork uint64) bool {
	if c := &p.claimed[part]; c.Load() != fork-1 || !c.CompareAndSwap(fork-1, fork) {
		return false
	}
	p.failed[part] = guarded(part, p.work)
	if p.left.Add(-1) == 0 {
		p.wake(0)
	}
	return true
}

// do calls f for each part, side by side, and returns when all have returned: with the error of the lowest part that failed, so that the
// same failure is told whoever was faster. A panic is an error.
func (p *pool) do(f func(part int) error) error {
	clear(p.failed)
	p.work = f
	p.left.Store(int32(p.parts))
	p.fork.Add(1)
	p.rouse()
	p.await(func() bool { return p.left.Load() == 0 })
	p.work = nil
	for _, err := range p.failed {
		if err != nil {
			return err
		}
	}
	return nil
}

// await works until done says that it is; who makes it true wakes worker 0.
func (p *pool) await(done func() bool) {
	for !done() {
		if !p.step(0) {
			p.rest(0, done)
		}
	}
}

// rest looks for work for a while and then sleeps until somebody wakes the worker, unless until says that there is no need.
func (p *pool) rest(worker int, until func() bool) {
	for range spins {
		runtime.Gosched()
		if until() || p.step(worker) {
			return
		}
	}
	s := &p.sleepers[worker]
	s.asleep.Store(true)
	if until() || p.step(worker) { // what came before asleep was set woke nobody
		if s.asleep.CompareAndSwap(true, false) {
			return
		}
	}
	<-s.wake
}

// wake wakes a worker that sleeps.
func (p *pool) wake(worker int) {
	if s := &p.sleepers[worker]; s.asleep.Load() && s.asleep.CompareAndSwap(true, false) {
		s.wake <- struct{}{}
	}
}

// rouse wakes the helpers that sleep: there is work.
func (p *pool) rouse() {
	for i := 1; i < p.workers(); i++ {
		p.wake(i)
	}
}

// alone is do in the caller's goroutine, for work that is too little to be divided.
func alone(n int, f func(part int) error) error {
	for i := range n {
		if err := guarded(i, f); err != nil {
			return err
		}
	}
	return nil
}

func guarded(part int, f func(part int) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return f(part)
}
