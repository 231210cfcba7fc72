package equality

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/disk/disktest"
)

var pipelineID = snapshot.UUID{7}

// realKeeper is the agent's way: the coordinator over the log store on a disk that loses, tears and reorders what was not synced.
type realKeeper struct {
	mem    *disktest.Mem
	random *rand.Rand
	store  *snapshot.LogStore
	c      *snapshot.Coordinator
	now    *snapshot.Manifest
	cancel context.CancelFunc
	run    sync.WaitGroup
	asked  sync.WaitGroup
	failed error
}

// failingStore fails the checkpoints that the case wants to fail.
type failingStore struct {
	snapshot.Store
	abort func(id uint64) bool
}

var errAbort = errors.New("checkpoint is to fail")

func (s *failingStore) Begin(ctx context.Context, parent *snapshot.Manifest, id uint64) (snapshot.Writer, error) {
	w, err := s.Store.Begin(ctx, parent, id)
	if err != nil || parent == nil || !s.abort(id) {
		return w, err
	}
	return failingWriter{w}, nil
}

// failingWriter writes everything but the manifest.
type failingWriter struct{ snapshot.Writer }

func (failingWriter) Commit(context.Context, *snapshot.Manifest) error { return errAbort }

func (k *realKeeper) restore(back int) (pipeline.StateSource, error) {
	ctx := context.Background()
	var err error
	k.store, err = snapshot.OpenLog(ctx, snapshot.LogOptions{FS: k.mem, Dir: "/checkpoints", Pipeline: pipelineID, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	list, err := k.store.List(ctx)
	if err != nil {
		return nil, err
	}
	for n := 0; n < back && n+1 < len(list.Manifests); n++ {
		if err := k.store.SetAside(ctx, list.Manifests[n].ID, "passed over by the test"); err != nil {
			return nil, err
		}
	}
	r, err := snapshot.Restore(ctx, snapshot.RestoreOptions{Store: k.store, Pipeline: pipelineID})
	switch {
	case errors.Is(err, snapshot.ErrNoCheckpoint):
		k.now = nil
		return nil, nil
	case err != nil:
		return nil, err
	}
	k.now = r.Manifest
	return r.Source, nil
}

func (k *realKeeper) begin(p *exec.Pipeline, abort func(id uint64) bool) error {
	cfg := snapshot.Default()
	cfg.Interval, cfg.RebaseDeltas = 0, 3
	var err error
	k.c, err = snapshot.NewCoordinator(snapshot.Options{
		Config: cfg, Identity: snapshot.Identity{Pipeline: pipelineID, Generation: 1, Incarnation: snapshot.Incarnation{Major: 1}},
		Store: &failingStore{k.store, abort}, Engine: p, Tasks: p.Tasks(), Current: k.now,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	if k.now == nil {
		if _, err := k.c.CommitInitial(ctx, snapshot.Initial{}); err != nil {
			return fmt.Errorf("initial checkpoint: %w", err)
		}
	}
	k.run.Go(func() { k.failed = k.c.Run(ctx) })
	return nil
}

func (k *realKeeper) deliver(s pipeline.TaskSnapshot) { k.c.Deliver(s) }

func (k *realKeeper) checkpoint(ctx context.Context, wait bool) {
	k.c.Records(1)
	if wait {
		_, _ = k.c.Trigger(ctx) // one that is to fail does
		return
	}
	k.asked.Go(func() { _, _ = k.c.Trigger(ctx) })
}

// crash is a power cut: one of the states that the disk may be left in.
func (k *realKeeper) crash() error {
	images := disktest.Crasher{Seed: k.random.Uint64(), PerCall: 12}
	var all []*disktest.Mem
	images.Images(k.mem, 0, func(m *disktest.Mem) { all = append(all, m) })
	k.cancel()
	k.run.Wait()
	k.asked.Wait()
	if err := k.store.Close(); err != nil {
		return err
	}
	k.mem = all[k.random.IntN(len(all))]
	return k.failed
}

// TestStreamsAreEqualOverRealStores: the same with the coordinator, the log store, rebases, and power cuts.
func TestStreamsAreEqualOverRealStores(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		k := &realKeeper{mem: disktest.NewMem(), random: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "disk"), 1))}
		if wrong := live(t, d.graph(t), d.entries, d.all, d.counts, d.lives, k); wrong != "" {
			t.Fatalf("%s\n%s", wrong, d.text)
		}
	})
}

var _ keeper = (*realKeeper)(nil)
