package snapshot

import (
	"fmt"
	"time"
)

// Mode tells what a crash may do to results.
type Mode string

const (
	// ExactlyOnce is the default.
	ExactlyOnce Mode = "exactly-once"
	// AtLeastOnce lets results leave at once, without waiting for the journal's sync; they may repeat after a crash.
	AtLeastOnce Mode = "at-least-once"
)

// Config are the checkpoint settings of a pipeline. The names are Flink's where Flink has one.
type Config struct {
	// Interval from the start of one checkpoint to the start of the next. 0: none by time.
	Interval time.Duration
	// EveryRecords starts a checkpoint when so many journal records were read since the last. 0: none by count.
	EveryRecords uint64
	// Timeout from the barrier to the commit; then the checkpoint is aborted.
	Timeout time.Duration
	// MinPause between the end of one checkpoint and the start of the next. A Trigger does not wait for it.
	MinPause time.Duration
	// MaxConcurrent is 1: a second barrier waits for the first checkpoint's end.
	MaxConcurrent int
	// TolerableFailures: with more consecutive failures Run ends with ErrTooManyFailures. -1: retry for ever (the default;
	// Flink's is 0). A gateway with a full disk has nothing to win from a restart.
	TolerableFailures int
	// AlarmAfter so many consecutive failures the alarm is raised, in the log and in Metrics.
	AlarmAfter int
	// Retained is how many committed checkpoints are kept. The journal is held from the oldest of them on.
	Retained int
	// Mode is handed to the outbox streams; the coordinator does the same in both.
	Mode Mode
	// RebaseRatio: a new base is merged when the deltas exceed so many times the base, or come from RebaseDeltas checkpoints.
	RebaseRatio float64
	// RebaseDeltas caps the chain.
	RebaseDeltas int
	// IdleInterval: when only the position moved, a checkpoint is written at most so often (one page on flash).
	IdleInterval time.Duration
}

// Default is what DESIGN.md §8 says.
func Default() Config {
	return Config{
		Interval: 10 * time.Second, Timeout: 10 * time.Minute, MaxConcurrent: 1, TolerableFailures: -1, AlarmAfter: 3,
		Retained: 3, Mode: ExactlyOnce, RebaseRatio: 2, RebaseDeltas: 64, IdleInterval: 5 * time.Minute,
	}
}

// Validate names the first bad field and what it may be.
func (c Config) Validate() error {
	switch {
	case c.Interval < 0 || c.Interval > 0 && c.Interval < 10*time.Millisecond:
		return fmt.Errorf("interval %s: 0 or at least 10ms", c.Interval)
	case c.Timeout < 10*time.Millisecond:
		return fmt.Errorf("timeout %s: at least 10ms", c.Timeout)
	case c.MinPause < 0:
		return fmt.Errorf("min_pause %s: not negative", c.MinPause)
	case c.MaxConcurrent != 1:
		return fmt.Errorf("max_concurrent %d: only 1", c.MaxConcurrent)
	case c.TolerableFailures < -1:
		return fmt.Errorf("tolerable_failures %d: -1 (any number) or more", c.TolerableFailures)
	case c.AlarmAfter < 1:
		return fmt.Errorf("alarm_after %d: at least 1", c.AlarmAfter)
	case c.Retained < 1 || c.Retained > 1000:
		return fmt.Errorf("retained %d: 1 to 1000", c.Retained)
	case c.Mode != ExactlyOnce && c.Mode != AtLeastOnce:
		return fmt.Errorf("mode %q: %s or %s", c.Mode, ExactlyOnce, AtLeastOnce)
	case c.RebaseRatio < 0.1 || c.RebaseRatio > 100:
		return fmt.Errorf("rebase_ratio %g: 0.1 to 100", c.RebaseRatio)
	case c.RebaseDeltas < 1 || c.RebaseDeltas > 1000:
		return fmt.Errorf("rebase_deltas %d: 1 to 1000", c.RebaseDeltas)
	case c.IdleInterval < 0:
		return fmt.Errorf("idle_interval %s: not negative", c.IdleInterval)
	}
	return nil
}
