package ops

import (
	"fmt"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
)

// Split sends each row to the port of the first condition that is true, and to the last port when none is. A condition that
// fails, or is neither bool nor null, refuses the row.
type Split struct {
	pipeline.Stateless
	conditions []*expr.Program
}

// NewSplit makes a split; its ports are the conditions and one for the rest.
func NewSplit(conditions []*expr.Program) *Split { return &Split{conditions: conditions} }

// Process implements pipeline.Operator.
func (s *Split) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	for port, cond := range s.conditions {
		switch ok, failure := cond.True(r.Slots); {
		case ok:
			out.Forward(port, r)
			return
		case failure != "":
			out.Refuse(reasonExpression, "split: "+failure, r)
			return
		}
	}
	out.Forward(len(s.conditions), r)
}

// ShareParts is the number of parts that keys are divided into: a share is a number of them.
const ShareParts = 10000

// ShareConfig sets up a share.
type ShareConfig struct {
	Key   []int // slots
	Parts int   // of ShareParts
}

// Validate names the field that is wrong.
func (c ShareConfig) Validate() error {
	switch {
	case c.Parts < 1 || c.Parts >= ShareParts:
		return fmt.Errorf("%w: split: share is %d of %d parts, want 1 to %d", ErrConfig, c.Parts, ShareParts, ShareParts-1)
	case len(c.Key) == 0:
		return fmt.Errorf("%w: split: a share needs a key", ErrConfig)
	}
	return nil
}

// Share sends the rows of a share of the keys to port 0 and the others to port 1. A key's part is the upper part of xxhash64 of
// its bytes (pipeline/DESIGN.md, "Key encoding"): the same on every device and in every pipeline, whatever the parallelism, and
// a key that is within a share is within every larger one.
type Share struct {
	pipeline.Stateless
	c   ShareConfig
	key []byte
}

// NewShare makes a share from a valid config.
func NewShare(c ShareConfig) *Share { return &Share{c: c} }

// Process implements pipeline.Operator.
func (s *Share) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	s.key = appendKeySlots(s.key[:0], r.Slots, s.c.Key)
	if sharePart(s.key) < s.c.Parts {
		out.Forward(0, r)
		return
	}
	out.Forward(1, r)
}

// sharePart is the part of ShareParts that a key is in: hash * ShareParts / 2^64.
func sharePart(key []byte) int {
	high, _ := bits.Mul64(xxhash.Sum64(key), ShareParts)
	return int(high)
}
