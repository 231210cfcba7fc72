package exec

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// pool forks the work of one task over its helpers and joins it again. Only the task's goroutine calls do; between two calls no helper
// works, so that what helpers share with the task needs no lock.
type pool struct {
	helpers []chan func() // one per helper
	joined  sync.WaitGroup
	ended   sync.WaitGroup
	failed  []error // per part of the work under way
}

// newPool is for work in n parts at once: n-1 helpers beside the caller. start begins them.
func newPool(n int) *pool {
	p := &pool{helpers: make([]chan func(), n-1), failed: make([]error, n)}
	for i := range p.helpers {
		p.helpers[i] = make(chan func(), 1) // the caller goes on to the next helper without waiting
	}
	return p
}

// start begins the helpers; the function that it returns ends them and waits until they have ended.
func (p *pool) start() (stop func()) {
	for _, work := range p.helpers {
		p.ended.Go(func() {
			for f := range work {
				f()
				p.joined.Done()
			}
		})
	}
	return func() {
		for _, work := range p.helpers {
			close(work)
		}
		p.ended.Wait()
	}
}

// do calls f(0) to f(n-1), side by side, and returns when all have returned: with the error of the lowest part that failed, so that the
// same failure is told whoever was faster. A panic is an error. n is at most that of newPool.
func (p *pool) do(n int, f func(part int) error) error {
	clear(p.failed)
	p.joined.Add(n - 1)
	for i := 1; i < n; i++ {
		p.helpers[i-1] <- func() { p.failed[i] = guarded(i, f) }
	}
	p.failed[0] = guarded(0, f)
	p.joined.Wait()
	for _, err := range p.failed[:n] {
		if err != nil {
			return err
		}
	}
	return nil
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
