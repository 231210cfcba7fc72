package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/snapshot/savepoint"
)

// startsFromSavepoint orders the restore that `start: savepoint FILE` asks for: once, at the first start that the pipeline ever has. From its first checkpoint on
// the setting means nothing.
func (a *attempt) startsFromSavepoint(ctx context.Context) error {
	if a.spec.StartFile == "" || a.begun() {
		return nil
	}
	if _, err := os.Stat(filepath.Join(a.dir(), restore.File)); !errors.Is(err, fs.ErrNotExist) {
		return err // ordered before
	}
	f, err := restore.ReadSavepoint(ctx, a.spec.StartFile)
	if err != nil {
		return fmt.Errorf("%w: start of pipeline %s: %w", errFinal, a.spec.Name.Value, err)
	}
	defer f.Close()
	// What came in before it was taken is not this pipeline's to lose when it is of another journal; when the journal has let go of records, that is a gap.
	gap := f.Head.Journal != a.agent.registry.Journal || a.agent.acceptGap.given(a.spec.Name.Value)
	a.log.Info("the pipeline starts from a savepoint", "file", a.spec.StartFile, "of", f.Head.Pipeline, "position", f.Head.Position)
	return restore.Order(a.dir(), api.RestoreOptions{File: a.spec.StartFile, AcceptGap: gap, Fresh: true})
}

// fresh tells that a new pipeline takes the state of another: nothing of its streams is upstream.
func (a *attempt) fresh(h *savepoint.Head, o api.RestoreOptions) bool {
	return o.Fresh && !bytes.Equal(h.UUID, a.id[:])
}

// beginStreams has the streams of a fresh pipeline stand where the savepoint's upstream stood, in its generation: the next one, which the restore opens, begins there.
// From 0 they would tell upstream that all before is lost. A repeat is harmless.
func (a *attempt) beginStreams(ctx context.Context, h *savepoint.Head) error {
	var marks []pipeline.SinkMark
	for _, s := range h.Sinks {
		marks = append(marks, pipeline.SinkMark{UID: s.UID, Generation: h.Generation, Seq: s.Confirmed})
	}
	for _, e := range a.outbox.Ends() {
		if e.Generation > h.Generation {
			return nil // all of them stood there before the first went on
		}
	}
	return a.outbox.Cut(ctx, marks, a.agent.incarnation())
}
