package agent

import (
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/pipeline/state"
)

// beginAnew gives the marks of a pipeline that starts empty though its outbox remembers results: --allow-empty, or checkpoints that are gone.
// Every sink goes on in a new generation behind the last number it gave out. With the old generation's numbers the first results
// would be taken for those that upstream holds, and be dropped. nil for a pipeline that never had a result.
func (a *attempt) beginAnew() []pipeline.SinkMark {
	held := map[string]pipeline.SinkMark{}
	generation, last := uint64(1), uint64(0)
	for _, m := range a.outbox.Ends() {
		held[m.UID] = m
		generation, last = max(generation, m.Generation), max(last, m.Seq)
	}
	if generation == 1 && last == 0 {
		return nil
	}
	next := max(generation+1, a.agent.identity.LeastGeneration)
	uids := []string{exec.DeadSink}
	for _, s := range a.graph.Sinks {
		uids = append(uids, s.UID)
	}
	marks := make([]pipeline.SinkMark, len(uids))
	for i, uid := range uids {
		marks[i] = pipeline.SinkMark{UID: uid, Generation: next, Seq: held[uid].Seq}
	}
	a.log.Warn("the pipeline begins anew; its sinks go on in a new generation", "generation", next)
	return marks
}

// emptySource is no state at a position, with sinks that go on.
type emptySource struct {
	marks    []pipeline.SinkMark
	position pipeline.Position
}

func (emptySource) Entries(string, string, func(key, sub, val []byte) error) (state.Spec, bool, error) {
	return state.Spec{}, false, nil
}
func (e emptySource) Sinks() []pipeline.SinkMark  { return e.marks }
func (e emptySource) Position() pipeline.Position { return e.position }
