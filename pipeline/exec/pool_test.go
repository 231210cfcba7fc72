package exec

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestAForkDoesEachPartOnce, however many workers there are, one fork behind the other, with other work in between and without.
func TestAForkDoesEachPartOnce(t *testing.T) {
	for _, workers := range []int{1, 2, 3, 8} {
		for _, filled := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				const parts, forks = 8, 300
				p := newPool(parts, workers)
				var pieces atomic.Int64 // that are left
				if filled {
					p.filler = func(int) bool { return pieces.Add(-1) >= 0 }
				}
				stop := p.start()
				var done [parts]int
				for n := range forks {
					pieces.Store(20)
					if err := p.do(func(part int) error { done[part]++; return nil }); err != nil {
						t.Fatal(err)
					}
					for part, times := range done {
						if times != n+1 {
							t.Fatalf("%d workers: part %d was done %d times in %d forks", workers, part, times, n+1)
						}
					}
					if n%100 == 0 {
						synctest.Wait() // the helpers sleep
					}
				}
				stop()
			})
		}
	}
}

// TestTheLowestPartThatFailedIsTold, and a panic is an error of its part.
func TestTheLowestPartThatFailedIsTold(t *testing.T) {
	p := newPool(4, 3)
	defer p.start()()
	for range 50 {
		err := p.do(func(part int) error {
			if part == 3 {
				panic("three")
			}
			if part > 0 {
				return fmt.Errorf("part %d", part)
			}
			return nil
		})
		if err == nil || err.Error() != "part 1" {
			t.Fatalf("got %v", err)
		}
	}
	if err := p.do(func(part int) error {
		if part == 2 {
			panic("two")
		}
		return nil
	}); err == nil || !strings.HasPrefix(err.Error(), "panic: two") {
		t.Errorf("got %v", err)
	}
}

// TestAPartWhoseWorkerIsAwayIsTaken: a worker in a long piece of the filler does not hold up the fork.
func TestAPartWhoseWorkerIsAwayIsTaken(t *testing.T) {
	p := newPool(2, 2)
	away, back := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	p.filler = func(worker int) bool {
		if worker == 0 || once.Swap(true) {
			return false
		}
		close(away)
		<-back
		return true
	}
	stop := p.start()
	<-away
	done := 0
	if err := p.do(func(int) error { done++; return nil }); err != nil || done != 2 {
		t.Errorf("%d parts, %v", done, err)
	}
	close(back)
	stop()
}

// TestTheTaskWorksAheadWhileItWaits: for a part that takes long, it does the filler.
func TestTheTaskWorksAheadWhileItWaits(t *testing.T) {
	p := newPool(2, 2)
	ahead := make(chan struct{})
	var pieces atomic.Int64
	p.filler = func(worker int) bool {
		if worker != 0 || pieces.Load() == 10 {
			return false
		}
		if pieces.Add(1) == 10 {
			close(ahead)
		}
		return true
	}
	defer p.start()()
	started := make(chan struct{})
	err := p.do(func(part int) error {
		if part == 0 {
			<-started // else the task might take both
			return nil
		}
		close(started)
		<-ahead
		return errors.New("ahead")
	})
	if err == nil || err.Error() != "ahead" || pieces.Load() != 10 {
		t.Errorf("got %v, %d pieces", err, pieces.Load())
	}
}
