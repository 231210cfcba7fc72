package agent

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/disk"
)

// sickStore fails at the checkpoints begun while it is sick.
type sickStore struct {
	snapshot.Store
	sick atomic.Bool
}

func (s *sickStore) Begin(ctx context.Context, parent *snapshot.Manifest, id uint64) (snapshot.Writer, error) {
	if s.sick.Load() {
		return nil, errors.New("no room")
	}
	return s.Store.Begin(ctx, parent, id)
}

// TestFailedCheckpointsAreCountedToldAndTriedAgain: the pipeline works on meanwhile, status and metrics tell of the failures, and the next
// checkpoint that succeeds holds everything: after a restart nothing is missing and nothing comes twice.
func TestFailedCheckpointsAreCountedToldAndTriedAgain(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	a, err := New(b.parse(), b.options)
	if err != nil {
		t.Fatal(err)
	}
	id, err := statedir.ParseUUID(a.registry.UUID("p"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(a.pipelinesDir(), id.String())
	if err := disk.OS.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	store, err := a.openStore(t.Context(), a.all()[0].spec.Pipeline, id, dir, a.log)
	if err != nil {
		t.Fatal(err)
	}
	sick := &sickStore{Store: store}
	a.early["p"] = sick
	ctx, stop := context.WithCancel(context.Background())
	b.run(a, ctx, stop)
	b.put(1, 100)
	b.await("a first checkpoint", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 100 })
	before := a.Status().Pipelines[0].Checkpoint

	sick.sick.Store(true)
	b.put(101, 200)
	s := b.await("failures", func(s *api.Status) bool {
		return s.Pipelines[0].Checkpoint.InARow >= 3 && s.Pipelines[0].Position >= 200
	})
	p := s.Pipelines[0]
	if p.State != "running" || p.Restarts != 0 || p.Checkpoint.Failed < before.Failed+3 || p.Checkpoint.Position != before.Position {
		t.Errorf("while checkpoints fail: %+v", p)
	}
	if !strings.Contains(strings.Join(s.Problems, "; "), "checkpoints failed") {
		t.Errorf("problems %q", s.Problems)
	}
	var metrics bytes.Buffer
	a.WriteMetrics(&metrics)
	if text := metrics.String(); !strings.Contains(text, "weir_checkpoint_failed_total{") || strings.Contains(text, `weir_checkpoint_failed_total{pipeline="p"} 0`) {
		t.Error("the metrics say nothing of failed checkpoints")
	}

	sick.sick.Store(false)
	s = b.await("recovery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Checkpoint.InARow == 0 })
	if got := s.Pipelines[0].Checkpoint; got.Failed < 3 || pipeline.Position(got.Position) < 200 {
		t.Errorf("afterwards: %+v", got)
	}
	b.halt()
	b.start()
	b.put(201, 300)
	b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 300 })
	b.halt()
	b.wantIDs("p", [2]int{1, 300})
}
