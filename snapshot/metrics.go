package snapshot

import (
	"sync"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// Metrics are the figures of one coordinator since it was made. All times are of this process's monotonic clock.
type Metrics struct {
	LastGood      time.Time // when the newest commit of this process ended; zero: none yet
	LastID        uint64    // the current checkpoint
	LastPosition  pipeline.Position
	LastDuration  time.Duration // barrier to commit
	LastAlign     time.Duration // barrier to the last task's snapshot
	LastBytes     uint64        // frames of the last checkpoint
	LastEntries   uint64
	Committed     uint64
	Idle          uint64 // barriers after which nothing was written, since nothing but the position moved
	Failed        uint64
	FailedInARow  int
	LastError     string // of the newest checkpoint that failed; "" once one is committed
	Alarm         bool   // FailedInARow reached Config.AlarmAfter
	FrameBytes    uint64
	Rebases       uint64
	RebaseFailed  uint64
	PruneFailed   uint64
	TrimFailed    uint64
	BaseBytes     uint64 // of the current checkpoint
	DeltaBytes    uint64
	DeltaFrames   int
	RetainedFrom  pipeline.Position // the journal is held above it
	RetainedCount int
}

// LastGoodAge is how old the newest commit is at now; 0 while there is none.
func (m Metrics) LastGoodAge(now time.Time) time.Duration {
	if m.LastGood.IsZero() {
		return 0
	}
	return now.Sub(m.LastGood)
}

// meter guards the figures: they are written by the coordinator's goroutines and read by anybody.
type meter struct {
	mu sync.Mutex
	m  Metrics
}

func (t *meter) with(f func(m *Metrics)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.m)
}

func (t *meter) read() Metrics {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.m
}
