package snapshot

import "time"

// Stretch has checkpoints start at least so far apart, instead of Config.Interval where that is shorter; 0 ends it. A pipeline without checkpoints by time
// stays so. Everything else that makes a checkpoint due does so as ever. It does not block, and may be called at any time, from any goroutine.
func (c *Coordinator) Stretch(interval time.Duration) {
	if c.stretched.Swap(int64(interval)) != int64(interval) {
		c.signal()
	}
}

// config is what holds now.
func (c *Coordinator) config() Config {
	cfg := c.o.Config
	if cfg.Interval > 0 {
		cfg.Interval = max(cfg.Interval, time.Duration(c.stretched.Load()))
	}
	return cfg
}
