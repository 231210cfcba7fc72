package outbox

import (
	"fmt"
	"time"

	"github.com/weirstream/weir/store/log"
)

// Config bounds an Outbox.
type Config struct {
	Log log.Config
	// WindowBytes of results are kept in memory per stream; the rest waits in the log.
	WindowBytes int64
	// ChunkBytes and ChunkResults end a run of results that becomes one record.
	ChunkBytes   int64
	ChunkResults int
	// ReclaimBytes of confirmed results in the log cause marks to be written and the log to be trimmed between checkpoints.
	ReclaimBytes int64
}

// Default suits a gateway: 1 MiB of memory per stream, records of up to 64 KiB.
func Default() Config {
	l := log.Default()
	l.TailBytes = 64 << 10 // the streams keep their own windows
	l.SegmentBytesMin = 256 << 10
	return Config{Log: l, WindowBytes: 1 << 20, ChunkBytes: 64 << 10, ChunkResults: 512, ReclaimBytes: 4 << 20}
}

// Validate names the first field that is out of range.
func (c *Config) Validate() error {
	if err := c.Log.Validate(); err != nil {
		return err
	}
	for _, f := range [...]struct {
		name     string
		v        int64
		min, max int64
	}{
		{"window_bytes", c.WindowBytes, 4 << 10, 1 << 30},
		{"chunk_bytes", c.ChunkBytes, 1, 16 << 20},
		{"chunk_results", int64(c.ChunkResults), 1, 1 << 20},
		{"reclaim_bytes", c.ReclaimBytes, 1, 1 << 40},
	} {
		if f.v < f.min || f.v > f.max {
			return fmt.Errorf("outbox %s is %d, allowed is %d to %d", f.name, f.v, f.min, f.max)
		}
	}
	return nil
}

// Mode says when results become visible to the sender.
type Mode uint8

const (
	// CheckpointCommit: when the checkpoint that covers them has committed.
	CheckpointCommit Mode = iota
	// ImmediateCommit: at once; their inputs are durable and every operator upstream is deterministic.
	ImmediateCommit
	// AtLeastOnce: at once, and made-again results get new numbers instead of being dropped. They may repeat.
	AtLeastOnce
)

func (m Mode) String() string { return [...]string{"checkpoint", "immediate", "at-least-once"}[m] }

// OnFull says what happens when a stream holds MaxBytes.
type OnFull uint8

const (
	// Block makes Emit wait: backpressure up to the journal.
	Block OnFull = iota
	// DropOldest turns the oldest results that were not sent into a gap.
	DropOldest
)

// StreamOptions are the settings of one sink.
type StreamOptions struct {
	Mode     Mode
	MaxBytes int64 // of payloads that wait; 0: only the log's limit
	OnFull   OnFull
	TTL      time.Duration // agent life after which a result that was not sent becomes a gap; 0: never
	// Inherited: upstream may still be in the generation before, and hold results that wait here under the numbers that they had there.
	Inherited Inherited
}

// Inherited names results of an ended generation: those up to Seq that wait in the new one are the same.
type Inherited struct{ Generation, Seq uint64 }

// Validate names the first field that is out of range.
func (o *StreamOptions) Validate() error {
	switch {
	case o.Mode > AtLeastOnce:
		return fmt.Errorf("mode %d is unknown", o.Mode)
	case o.OnFull > DropOldest:
		return fmt.Errorf("on_full %d is unknown", o.OnFull)
	case o.MaxBytes < 0:
		return fmt.Errorf("max_bytes is %d, allowed is 0 or more", o.MaxBytes)
	case o.TTL < 0:
		return fmt.Errorf("ttl is %s, allowed is 0 or more", o.TTL)
	}
	return nil
}
