package agent

import (
	"time"

	"github.com/weirstream/weir/pipeline"
)

// Holder is a pipeline as the full journal sees it.
type Holder struct {
	Name     string
	Retained pipeline.Position // it needs the records above
	Running  bool
	Detach   bool          // on_full: detach
	Stalled  time.Duration // since Retained last moved
}

// LetGo decides which pipelines a full journal stops waiting for (RULES 19, 20): those that hold the lowest position and are
// on_full: detach, or have made no progress for retainFailed. A pipeline that goes on is never let go, nor is one alone responsible when others
// hold the same records and may recover.
func LetGo(full bool, holders []Holder, retainFailed time.Duration) (names []string) {
	if !full || len(holders) == 0 {
		return nil
	}
	low := holders[0].Retained
	for _, h := range holders[1:] {
		low = min(low, h.Retained)
	}
	for _, h := range holders {
		if h.Retained == low && (h.Detach && h.Stalled >= detachAfter || h.Stalled >= retainFailed) {
			names = append(names, h.Name)
		}
	}
	return names
}

// detachAfter keeps on_full: detach from acting on a pipeline that is only a checkpoint behind.
const detachAfter = time.Minute

// RetainFailedDefault is how long a pipeline may hold a full journal without progress.
const RetainFailedDefault = time.Hour
