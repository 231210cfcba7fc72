package agent

import (
	"fmt"
	"path/filepath"

	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/outbox"
)

// inheritedFile in a pipeline's directory says which results of the generation before wait here under their numbers: upstream, while it is still in that
// generation, may hold them. It is durable before the first of them can be sent in the new one.
const inheritedFile = "inherited.json"

type inheritance struct {
	Generation uint64            `json:"generation"`
	Sinks      map[string]uint64 `json:"sinks"` // uid → the last number
	// Replay: results of records up to there are made again under the numbers that they had, too; which they are is known once they are made (replay.go). 0: no such.
	Replay uint64 `json:"replay,omitempty"`
}

func (a *attempt) inherit(generation uint64, sinks []savepoint.Sink, replay uint64) error {
	i := inheritance{Generation: generation, Sinks: map[string]uint64{}, Replay: replay}
	for _, s := range sinks {
		i.Sinks[s.UID] = s.Seq
	}
	return a.saveInheritance(&i)
}

// saveInheritance is durable on return.
func (a *attempt) saveInheritance(i *inheritance) error {
	if err := record.Write(disk.OS, filepath.Join(a.dir(), inheritedFile), i); err != nil {
		return fmt.Errorf("note what the new generation inherits: %w", err)
	}
	return nil
}

// inherited is what a stream may find upstream of the generation before. A damaged file says nothing: those results are sent again.
func (a *attempt) inherited(uid string) (o outbox.Inherited) {
	i, err := a.inheritance()
	if err != nil {
		a.log.Error("what the generation inherits is not readable; results that upstream holds may be sent once more", "error", err)
		return o
	}
	return outbox.Inherited{Generation: i.Generation, Seq: i.Sinks[uid]}
}

// inheritance reads it; the zero value: there is none.
func (a *attempt) inheritance() (i inheritance, err error) {
	_, err = record.Read(a.agent.fs, filepath.Join(a.dir(), inheritedFile), statedir.Small(inheritedFile), &i)
	return i, err
}

// raiseGeneration lets the sinks go on in the first generation of this device's own, whose numbers no other device has used (Retake). No record is lost.
func (a *attempt) raiseGeneration(m *snapshot.Manifest, marks []pipeline.SinkMark, source pipeline.StateSource) ([]pipeline.SinkMark, pipeline.StateSource, error) {
	before, least := generationOf(marks), a.agent.identity.LeastGeneration
	next := make([]pipeline.SinkMark, len(marks))
	for i, mark := range marks {
		mark.Generation, mark.Chain = least, 0
		next[i] = mark
	}
	a.log.Warn("another device may have gone on with the streams: the sinks begin a new generation", "generation", least, "before", before)
	return next, movedSource{StateSource: source, marks: next, position: m.Position}, a.inheritMarks(before, marks)
}

// inheritMarks is inherit for a pipeline that begins a generation where it stands.
func (a *attempt) inheritMarks(generation uint64, marks []pipeline.SinkMark) error {
	var sinks []savepoint.Sink
	for _, m := range marks {
		sinks = append(sinks, savepoint.Sink{UID: m.UID, Seq: m.Seq})
	}
	return a.inherit(generation, sinks, 0)
}
