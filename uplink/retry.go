package uplink

import (
	"context"
	"slices"
	"strings"
	"time"
)

// Told keeps which kinds of failures were logged since something went through. The zero value: none. One goroutine uses it.
type Told struct{ kinds []string }

// toldMax bounds how many of them are logged.
const toldMax = 8

// First tells whether a failure is the first one of its kind, and is to be logged.
func (t *Told) First(err error) bool {
	kind := withoutNumbers(err.Error())
	if len(t.kinds) >= toldMax || slices.Contains(t.kinds, kind) {
		return false
	}
	t.kinds = append(t.kinds, kind)
	return true
}

// Forget is called when something went through.
func (t *Told) Forget() { t.kinds = t.kinds[:0] }

// withoutNumbers makes errors alike that differ in ports, counts and times: each kind of failure is told once.
func withoutNumbers(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}

func (s *Sender) backOff(ctx context.Context, err error) error { return s.backOffAtLeast(ctx, err, 0) }

func (s *Sender) backOffAtLeast(ctx context.Context, err error, least time.Duration) error {
	s.metrics.fail(err)
	if s.retries == 0 {
		s.told.Forget()
	}
	if s.told.First(err) {
		s.log.Warn("upstream cannot be reached or refuses, trying on", "error", err)
	}
	n := s.retries
	s.retries++
	return s.o.Backoff.pause(ctx, n, least)
}
