package savepoints

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/snapshot/savepoint"
)

// Ground is what a pipeline stands on when a savepoint is to be restored into it.
type Ground struct {
	Journal     string            // its identity
	First, Next pipeline.Position // the journal's first record, and the position of the one to come
	// SamePlan: the plan and every operator's behaviour are those of the savepoint, and no other plan ran since.
	SamePlan bool
	// Stood: the pipeline stopped with the savepoint and has not run since.
	Stood bool
	// Ends are the streams that have given out results here.
	Ends []pipeline.SinkMark
	// Least generation that a new one may be: another device may have opened those below.
	Least uint64
	// Whole: another device's state goes on here, and all that this journal holds came behind it.
	Whole bool
	// AcceptGap: the operator allows that continuity is broken.
	AcceptGap bool
}

// Way is how a savepoint is restored.
type Way struct {
	Position   pipeline.Position // where the pipeline goes on
	Generation uint64
	Restarted  bool   // a new generation: upstream sees that continuity was broken
	Lost       uint64 // records between the savepoint and Position that are not worked on
	Why        string // why it is restarted
}

// ErrBreak is the error of a restore that would break the continuity of results and was not allowed to.
var ErrBreak = errors.New("the restore would break continuity")

// Decide is pure. Sequences go on without a break when every record behind the savepoint is still in the journal it was taken of, and what
// is made of them again is what was made before (same plan), or nothing was made yet. That nothing was made, Ends alone cannot show: what left at once
// and was confirmed at once is known upstream only. Else a new generation opens, which needs Ground.AcceptGap.
func Decide(h *savepoint.Head, g *Ground) (Way, error) {
	w := Way{Position: pipeline.Position(h.Position), Generation: h.Generation}
	newest := h.Generation
	ranOn := ""
	for _, e := range g.Ends {
		newest = max(newest, e.Generation)
		for i := range h.Sinks {
			if s := &h.Sinks[i]; s.UID == e.UID && e.Seq > s.Seq {
				ranOn = e.UID
			}
		}
	}
	switch {
	case h.Journal != g.Journal:
		if w.Position = g.Next - 1; g.Whole {
			w.Position = g.First - 1
		}
		w.Why = "it was taken on another gateway or of another journal: what came in between is not here"
	case w.Position+1 < g.First:
		w.Lost = uint64(g.First - 1 - w.Position)
		w.Position = g.First - 1
		w.Why = fmt.Sprintf("the journal begins at %d, records %d to %d are gone", g.First, h.Position+1, g.First-1)
	case w.Position >= g.Next:
		w.Position = g.Next - 1
		w.Why = fmt.Sprintf("it stands at %d, beyond the journal's last record %d", h.Position, g.Next-1)
	case newest > h.Generation:
		w.Why = fmt.Sprintf("its results are of generation %d, and generation %d has begun since", h.Generation, newest)
	case ranOn != "" && !g.SamePlan:
		w.Why = fmt.Sprintf("sink %s gave out results behind it, and this plan would make others under their numbers", ranOn)
	case !g.Stood && !g.SamePlan:
		w.Why = "the pipeline did not stop with it (weir pipeline stop --savepoint), or has run since: results may have left behind it, and this plan would make others under their numbers"
	default:
		return w, nil
	}
	w.Restarted, w.Generation = true, max(newest+1, g.Least)
	if !g.AcceptGap {
		return w, fmt.Errorf("%w: %s; with --accept-gap the sinks begin generation %d, and upstream sees the break", ErrBreak, w.Why, w.Generation)
	}
	return w, nil
}
