package ops

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weirstream/weir/pipeline"
)

// SampleConfig sets up a sample.
type SampleConfig struct {
	Keyed
	Every int
}

// Validate names the field that is wrong.
func (c SampleConfig) Validate() error {
	if c.Every < 1 || c.Every > math.MaxInt32 {
		return fmt.Errorf("%w: sample: every is %d, want 1 to %d", ErrConfig, c.Every, math.MaxInt32)
	}
	return c.validate("sample")
}

// Sample passes each Every-th row of a key: the n-th, the 2n-th and so on.
type Sample struct {
	memory
	every uint32
}

// NewSample makes a sample from a valid config.
func NewSample(c SampleConfig) *Sample {
	return &Sample{memory: memory{k: c.Keyed}, every: uint32(c.Every)}
}

// countBytes: count (FORMAT.md).
const countBytes = 4

// Open implements pipeline.Operator.
func (s *Sample) Open(tables pipeline.Tables) error { return s.open(tables, "sample", "ops.sample", 1) }

// Restored implements pipeline.Operator.
func (s *Sample) Restored() error { return checkSizes(s.table, countBytes) }

// Process implements pipeline.Operator.
func (s *Sample) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	s.at(r, out)
	b := s.room(countBytes, r, out)
	if b == nil {
		return
	}
	count := binary.LittleEndian.Uint32(b) + 1
	if count >= s.every { // above it only when a config before had a larger one
		binary.LittleEndian.PutUint32(b, 0)
		out.Forward(0, r)
		return
	}
	binary.LittleEndian.PutUint32(b, count)
	out.Counters.Dropped++
}
