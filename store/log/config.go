package log

import (
	"fmt"
	"time"
)

// RecordBytesMax is the longest record. One that does not fit a segment gets a segment file of its own size.
const RecordBytesMax = 64 << 20

// Config bounds a log. The zero value is not valid; start from Default.
type Config struct {
	// SegmentBytes is the size of a segment file.
	SegmentBytes int64
	// SegmentBytesMin lets a log with little in it have smaller segment files: a new one is half as large as all in use together or
	// more, within SegmentBytesMin and SegmentBytes. 0, or SegmentBytes and more: all are of SegmentBytes.
	SegmentBytesMin int64
	// MaxBytes of segments in use; then Append gives ErrFull. What was accepted before, and what AppendReserved adds, is still written.
	MaxBytes int64
	// ReserveBytes of the disk are left free: Append gives ErrFull when the next segment file would go below.
	ReserveBytes int64
	// Linger is how long a commit waits for more records, counted from its first one (DESIGN.md, "Group commit").
	Linger time.Duration
	// MaxUnsynced bytes may wait for a commit; then Append blocks.
	MaxUnsynced int
	// Compress frames where that makes them smaller: with zstd, from FastBytes on with S2 (0: always zstd).
	Compress  bool
	FastBytes int
	// TailBytes of durable records are kept in memory for readers at the tail.
	TailBytes int
	// SpareSegments is how many recycled segment files are kept for reuse; more are removed.
	SpareSegments int
}

// Default suits eMMC and SD cards: 4 MiB segments (the usual erase size), 5 ms linger.
func Default() Config {
	return Config{
		SegmentBytes: 4 << 20, MaxBytes: 1 << 30, ReserveBytes: 64 << 20, Linger: 5 * time.Millisecond,
		MaxUnsynced: 2 << 20, Compress: true, FastBytes: 48 << 10, TailBytes: 1 << 20, SpareSegments: 4,
	}
}

// Validate names the first field that is out of range.
func (c Config) Validate() error {
	for _, f := range [...]struct {
		name        string
		v, min, max int64
	}{
		{"segment_bytes", c.SegmentBytes, 8 << 10, 1 << 30},
		{"max_bytes", c.MaxBytes, 4 * c.SegmentBytes, 1 << 44},
		{"reserve_bytes", c.ReserveBytes, 0, 1 << 44},
		{"linger", int64(c.Linger), 0, int64(10 * time.Second)},
		{"max_unsynced", int64(c.MaxUnsynced), 4 << 10, 1 << 30},
		{"fast_bytes", int64(c.FastBytes), 0, 1 << 30},
		{"tail_bytes", int64(c.TailBytes), 0, 1 << 30},
		{"spare_segments", int64(c.SpareSegments), 0, 1 << 20},
	} {
		if f.v < f.min || f.v > f.max {
			return fmt.Errorf("log %s is %d, allowed is %d to %d", f.name, f.v, f.min, f.max)
		}
	}
	if c.SegmentBytesMin != 0 && (c.SegmentBytesMin < 8<<10 || c.SegmentBytesMin%pageBytes != 0) {
		return fmt.Errorf("log segment_bytes_min is %d, allowed is 0, or a multiple of %d from 8192 on", c.SegmentBytesMin, pageBytes)
	}
	if c.SegmentBytes%pageBytes != 0 {
		return fmt.Errorf("log segment_bytes is %d, want a multiple of %d", c.SegmentBytes, pageBytes)
	}
	return nil
}
