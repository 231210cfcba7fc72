package uplinktest

import (
	"errors"
	"testing"
	"time"
)

// quiet is a test inside of a test: what it says and its clean-up are looked at.
type quiet struct {
	testing.TB
	said    int
	cleanup []func()
}

func (q *quiet) Errorf(string, ...any) { q.said++ }

func (q *quiet) Cleanup(f func()) { q.cleanup = append(q.cleanup, f) }

// TestBreakEndsWithItsTest: the clean-up of a test that has ended early stops the strikes and waits for the one under way; a failed strike is told once.
func TestBreakEndsWithItsTest(t *testing.T) {
	q := &quiet{TB: t}
	under, ended := make(chan struct{}), false
	Break(q, 0, func() error {
		close(under)
		time.Sleep(10 * time.Millisecond)
		ended = true
		return errors.New("the server does not come back")
	})
	<-under
	for _, f := range q.cleanup {
		f()
	}
	if !ended || q.said != 1 {
		t.Errorf("the strike under way ended: %v; told %d times", ended, q.said)
	}
}
