package space

import (
	"time"

	"github.com/weirstream/weir/pipeline"
)

// Holder is a pipeline as the journal sees it.
type Holder struct {
	Name     string
	Retained pipeline.Position // it needs the records above
	Running  bool
	Detach   bool          // on_full: detach
	Stalled  time.Duration // since Retained last moved
	Lag      int64         // unread journal bytes, an estimate
	LagLimit int64         // 0: none
}

// LetGo decides which pipelines the journal stops waiting for. One that is on_full: detach and lags more than its limit goes at
// once. When the journal is full, those go that hold the lowest position and are on_full: detach, or have made no progress
// for retainFailed (RULES 19, 20). One that holds nothing back is left alone, however long it stands.
func LetGo(full bool, holders []Holder, retainFailed time.Duration) (names []string) {
	if len(holders) == 0 {
		return nil
	}
	low := holders[0].Retained
	for _, h := range holders[1:] {
		low = min(low, h.Retained)
	}
	for _, h := range holders {
		if h.Detach && h.LagLimit > 0 && h.Lag > h.LagLimit || full && h.Retained == low && (h.Detach && h.Stalled >= detachAfter || h.Stalled >= retainFailed) {
			names = append(names, h.Name)
		}
	}
	return names
}

// detachAfter keeps on_full: detach from acting on a pipeline that is only a checkpoint behind.
const detachAfter = time.Minute

// RetainFailedDefault is how long a pipeline may hold a full journal without progress.
const RetainFailedDefault = time.Hour

// LagShare is pure: the share of the records behind a position in what the journal holds.
func LagShare(bytes int64, first, durable, at pipeline.Position) int64 {
	if durable < first || at >= durable {
		return 0
	}
	unread := min(durable-at, durable-first+1)
	return int64(float64(bytes) * float64(unread) / float64(durable-first+1))
}
