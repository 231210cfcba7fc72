package space

import (
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/store/log"
)

// Journal takes the settings over.
func Journal(cfg *config.Config) log.Config {
	c, j := log.Default(), cfg.Journal
	c.MaxBytes, c.ReserveBytes, c.Linger, c.SegmentBytes, c.Compress = j.MaxBytes, j.ReserveBytes, j.Linger, j.SegmentBytes, j.Compress
	if j.UnsyncedBytes > 0 {
		c.MaxUnsynced = int(j.UnsyncedBytes)
	}
	return c
}
