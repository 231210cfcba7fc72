package uplink

import (
	"context"
	"slices"
	"strings"
	"time"
)

// toldMax bounds how many kinds of failure are logged before something goes through again.
const toldMax = 8

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
		s.told = s.told[:0]
	}
	if shape := withoutNumbers(err.Error()); len(s.told) < toldMax && !slices.Contains(s.told, shape) {
		s.told = append(s.told, shape)
		s.log.Warn("upstream cannot be reached or refuses, trying on", "error", err)
	}
	n := s.retries
	s.retries++
	return s.o.Backoff.pause(ctx, n, least)
}
