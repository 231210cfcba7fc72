package agent

import (
	"sync"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// progress tells a pipeline that is stuck from one that waits: it remembers when the position last moved. Safe for several
// callers: the watchdog and /healthz both ask.
type progress struct {
	mu       sync.Mutex
	position pipeline.Position
	moved    time.Time
}

// observe notes the position and tells whether it has stood still for stuckAfter although there was work.
func (p *progress) observe(at, durable pipeline.Position, pushedBack bool, now time.Time) (stuck bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at != p.position || at >= durable || pushedBack || p.moved.IsZero() {
		p.position, p.moved = at, now
		return false
	}
	return now.Sub(p.moved) > stuckAfter
}
