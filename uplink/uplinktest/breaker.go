package uplinktest

import (
	"sync"
	"testing"
	"time"
)

// Break strikes again and again beside a test, until stop is called or the test ends, whichever way: a server that is started again for a test that has
// failed is nobody's. It waits for the strike under way; one that fails is the last, and fails the test. What is read back of a far end is read behind stop,
// else the far end is killed under the question.
//
// A strike is a step of its own, in a goroutine of its own: it returns what went wrong, since only the test's goroutine may end the test.
func Break(t testing.TB, pause time.Duration, strike func() error) (stop func()) {
	t.Helper()
	var failed error
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for failed == nil {
			select {
			case <-end:
				return
			case <-time.After(pause):
				failed = strike()
			}
		}
	}()
	var once sync.Once
	stop = func() {
		t.Helper()
		once.Do(func() {
			close(end)
			if <-done; failed != nil {
				t.Errorf("the breaker failed: %v", failed)
			}
		})
	}
	t.Cleanup(stop)
	return stop
}
