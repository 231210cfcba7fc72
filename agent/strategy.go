package agent

import "github.com/weirstream/weir/agent/config"

// strategyOf takes the settings over.
func strategyOf(r *config.Restart) RestartStrategy {
	return RestartStrategy{
		Kind: r.Strategy, Attempts: r.Attempts, Delay: r.Delay, FailuresMax: r.MaxFailuresPerInterval, Interval: r.FailureRateInterval,
		BackoffInitial: r.InitialBackoff, BackoffMax: r.MaxBackoff, BackoffMultiplier: r.BackoffMultiplier,
		ResetAfter: r.ResetBackoffThreshold, Jitter: r.JitterFactor, AttemptsMax: r.AttemptsBeforeResetBackoff,
	}
}
