// Package pipeline holds the types that every part of the dataflow speaks: positions, values, rows, batches,
// watermarks, barriers, and the interfaces that the engine needs from the journal and from the delivery side.
//
// It keeps nothing and does no I/O. DESIGN.md beside this file defines the total order, the batch contract, the
// key encoding and the kinds of state; the code here is their form in Go.
package pipeline

import (
	"fmt"
	"math"
)

// Position is the number of a record in the agent's journal. The first record is 1; 0 means "before the first".
// A position is never given out twice, across restarts too. A checkpoint at position p holds the state after every
// record up to and including p; a restart reads on at p+1.
type Position uint64

// String has a fixed width, so that names built from positions sort.
func (p Position) String() string { return fmt.Sprintf("%020d", uint64(p)) }

// Stamp is the time of a journal frame. Every record of the frame has it.
type Stamp struct {
	// Elapsed counts nanoseconds of agent life. It never steps back and is never set from a wall clock. Durations, TTL,
	// holds and idleness use it.
	Elapsed int64
	// Wall is Unix milliseconds as the clock said then. It is data, not order.
	Wall int64
	// Trusted tells that the wall clock was known to be right (DESIGN.md of the agent's clock). An untrusted wall clock
	// switches max_ahead off.
	Trusted bool
}

const (
	// NoTime marks a row without event time.
	NoTime = math.MinInt64
	// MinWatermark is the watermark before any event.
	MinWatermark = math.MinInt64
	// MaxWatermark ends event time: `weir replay` and drain send it behind the last record.
	MaxWatermark = math.MaxInt64
	// NoDeadline says that no timer waits.
	NoDeadline = math.MaxInt64
)
