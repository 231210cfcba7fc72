// Package restart decides whether and when a failed pipeline starts again, and which records it goes on without. All of it is pure; its supervisor counts and waits.
package restart

import (
	"time"

	"github.com/weirstream/weir/agent/config"
)

// Strategy decides whether and when a failed pipeline starts again. The names, parameters and defaults are
// Flink's. The zero value is "none".
type Strategy struct {
	Kind string // none | fixed-delay | failure-rate | exponential-delay

	Attempts int           // fixed-delay: most restarts in a row
	Delay    time.Duration // fixed-delay, failure-rate: wait before each restart

	FailuresMax int           // failure-rate: most failures per interval
	Interval    time.Duration // failure-rate: the interval

	BackoffInitial    time.Duration // exponential-delay
	BackoffMax        time.Duration
	BackoffMultiplier float64
	ResetAfter        time.Duration // exponential-delay: time without failure after which it begins anew
	Jitter            float64       // exponential-delay: ± share of the wait
	AttemptsMax       int           // exponential-delay: 0 = without limit
}

// History is what a strategy has to know of the past of a pipeline. The supervisor's goroutine owns it.
type History struct {
	Failures []time.Duration // monotonic times of the failures, oldest first; bounded by the strategy
	Attempts int             // restarts since the last reset
	wait     time.Duration
}

// Next notes a failure at now (monotonic since the agent's start) and tells whether to restart, and after how long.
// random is in [0,1).
func (s Strategy) Next(h *History, now time.Duration, random float64) (wait time.Duration, restart bool) {
	last := time.Duration(-1)
	if n := len(h.Failures); n > 0 {
		last = h.Failures[n-1]
	}
	h.Failures = append(h.Failures, now)
	if keep := max(s.FailuresMax+1, 1); len(h.Failures) > keep {
		h.Failures = h.Failures[len(h.Failures)-keep:]
	}
	switch s.Kind {
	case "fixed-delay":
		h.Attempts++
		return s.Delay, h.Attempts <= s.Attempts
	case "failure-rate":
		if len(h.Failures) > s.FailuresMax && now-h.Failures[0] <= s.Interval {
			return 0, false
		}
		return s.Delay, true
	case "exponential-delay":
		if h.Attempts > 0 && last >= 0 && now-last > s.ResetAfter+h.wait {
			h.Attempts, h.wait = 0, 0
		}
		h.Attempts++
		if s.AttemptsMax > 0 && h.Attempts > s.AttemptsMax {
			return 0, false
		}
		if h.wait == 0 {
			h.wait = s.BackoffInitial
		} else {
			h.wait = min(time.Duration(float64(h.wait)*s.BackoffMultiplier), s.BackoffMax)
		}
		jitter := 1 + s.Jitter*(2*random-1)
		return time.Duration(float64(h.wait) * jitter), true
	}
	return 0, false
}

// StrategyOf takes the settings over.
func StrategyOf(r *config.Restart) Strategy {
	return Strategy{
		Kind: r.Strategy, Attempts: r.Attempts, Delay: r.Delay, FailuresMax: r.MaxFailuresPerInterval, Interval: r.FailureRateInterval,
		BackoffInitial: r.InitialBackoff, BackoffMax: r.MaxBackoff, BackoffMultiplier: r.BackoffMultiplier,
		ResetAfter: r.ResetBackoffThreshold, Jitter: r.JitterFactor, AttemptsMax: r.AttemptsBeforeResetBackoff,
	}
}
