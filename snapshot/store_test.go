package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/store/boltkv"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/pebblekv"
)

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// storeKind opens and reopens a store of one kind in a directory.
type storeKind struct {
	name string
	open func(t testing.TB, dir string) Store
}

func storeKinds() []storeKind {
	logs := map[string]*memLog{}
	kinds := []storeKind{
		{"bolt", func(t testing.TB, dir string) Store {
			s, err := OpenBolt(BoltOptions{Path: filepath.Join(dir, "checkpoints.bolt"), Pipeline: testPipeline, Bolt: boltkv.Options{NoSync: true}})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}},
		{"log", func(t testing.TB, dir string) Store {
			s, err := openTestLog(disk.OS, dir, 64<<10)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}},
		{"memlog", func(t testing.TB, dir string) Store {
			if logs[dir] == nil {
				logs[dir] = newMemLog()
			}
			return openMemStore(t, dir, logs[dir])
		}},
	}
	if pebblekv.Built {
		kinds = append(kinds, storeKind{"pebble", func(t testing.TB, dir string) Store {
			s, err := OpenPebble(context.Background(), LogOptions{FS: disk.OS, Dir: dir, Pipeline: testPipeline, Logger: discard()})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}})
	}
	return kinds
}

// smallRuns makes sorter buffers tiny, so that little data gives many chunks and runs.
func smallRuns(w Writer, run, chunk int) {
	switch w := w.(type) {
	case *boltWriter:
		w.sort.runBytes, w.sort.chunkBytes = run, chunk
	case *logWriter:
		w.sort.runBytes, w.sort.chunkBytes = run, chunk
	}
}

// smallStore is a Store whose writers make small chunks.
type smallStore struct{ Store }

func (s smallStore) Begin(ctx context.Context, parent *Manifest, id uint64) (Writer, error) {
	w, err := s.Store.Begin(ctx, parent, id)
	if err == nil {
		smallRuns(w, 512, 128)
	}
	return w, err
}

func randomChange(r *rand.Rand, p *plant, keys int) {
	table, key, sub := r.IntN(3), fmt.Sprintf("key-%03d", r.IntN(keys)), fmt.Sprint(r.IntN(3))
	if r.IntN(4) == 0 {
		p.del(table, key, sub)
		return
	}
	p.put(table, key, sub, strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(60)))
}

// readsBack verifies a checkpoint and compares its content.
func readsBack(s Store, m *Manifest, want content) error {
	if err := s.Verify(context.Background(), m); err != nil {
		return fmt.Errorf("checkpoint %d: %w", m.ID, err)
	}
	src, err := s.Load(m)
	if err != nil {
		return err
	}
	got, err := contentOf(src)
	if err == nil {
		err = sameContent(got, want)
	}
	if err != nil {
		return fmt.Errorf("checkpoint %d: %w", m.ID, err)
	}
	return nil
}

func checkManifest(t testing.TB, s Store, m *Manifest, want content) {
	t.Helper()
	if err := readsBack(s, m, want); err != nil {
		t.Fatal(err)
	}
}

// TestStoreKeepsEveryRetainedCheckpoint: 60 checkpoints with merges, prunes and restarts between; every retained one reads back whole.
func TestStoreKeepsEveryRetainedCheckpoint(t *testing.T) {
	for _, kind := range storeKinds() {
		t.Run(kind.name, func(t *testing.T) {
			dir, ctx := t.TempDir(), t.Context()
			s := kind.open(t, dir)
			p, r := newPlant(), newRand(3)
			var parent *Manifest
			var base BaseRef
			var ids []uint64
			for i := range uint64(60) {
				for range 40 {
					randomChange(r, p, 50)
				}
				ids = append(ids, i+1)
				oldest := ids[max(0, len(ids)-3)]
				m, err := p.checkpoint(ctx, smallStore{s}, parent, i+1, oldest, base)
				if err != nil {
					t.Fatal(err)
				}
				parent, base = m, BaseRef{}
				if i%7 == 5 {
					if base, err = s.Rebase(ctx, m); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Prune(ctx, oldest); err != nil {
					t.Fatal(err)
				}
				list, err := s.List(ctx)
				if err != nil || len(list.Manifests) != min(3, len(ids)) || len(list.Damage)+len(list.Bad) > 0 {
					t.Fatalf("%+v, %v", list, err)
				}
				for _, m := range list.Manifests {
					checkManifest(t, s, m, p.at.get(m.ID))
				}
				if i%11 == 10 {
					if err := s.Close(); err != nil {
						t.Fatal(err)
					}
					s, base = kind.open(t, dir), BaseRef{}
				}
			}
			if bytes, n := parent.DeltaBytes(); n > 16 || bytes == 0 {
				t.Errorf("chain of %d checkpoints, %d bytes", n, bytes)
			}
			if st := s.Stats(); st.Checkpoints != 3 || st.Bytes == 0 {
				t.Errorf("%+v", st)
			}
			_ = s.Close()
		})
	}
}

// TestMergeInPasses: more runs than one merge may hold open give the same base.
func TestMergeInPasses(t *testing.T) {
	for _, kind := range storeKinds() {
		t.Run(kind.name, func(t *testing.T) {
			dir, ctx := t.TempDir(), t.Context()
			s := kind.open(t, dir)
			defer s.Close()
			p := newPlant()
			r := newRand(9)
			for i := range 3000 {
				p.put(i%3, fmt.Sprintf("key-%05d", r.IntN(2000)), "s", strings.Repeat("v", r.IntN(40)))
			}
			m, err := p.checkpoint(ctx, smallStore{s}, nil, 1, 1, BaseRef{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 500 {
				p.del(i%3, fmt.Sprintf("key-%05d", r.IntN(2000)), "s")
			}
			if m, err = p.checkpoint(ctx, smallStore{s}, m, 2, 1, BaseRef{}); err != nil {
				t.Fatal(err)
			}
			if len(m.Frames) <= rebaseFramesMax+1 {
				t.Fatalf("only %d runs", len(m.Frames))
			}
			base, err := s.Rebase(ctx, m)
			if err != nil {
				t.Fatal(err)
			}
			if base.Entries != uint64(len(p.now)) {
				t.Errorf("base of %d entries, want %d", base.Entries, len(p.now))
			}
			if m, err = p.checkpoint(ctx, s, m, 3, 3, base); err != nil {
				t.Fatal(err)
			}
			if len(m.Frames) != 0 {
				t.Errorf("%d frames beside the new base", len(m.Frames))
			}
			if err := s.Prune(ctx, 3); err != nil {
				t.Fatal(err)
			}
			checkManifest(t, s, m, p.at.get(3))
		})
	}
}

// TestChangedTypeStartsEmpty: entries written under another type or version are not given back, from frames or base, and a table
// that went away and came back starts empty.
func TestChangedTypeStartsEmpty(t *testing.T) {
	for _, kind := range storeKinds() {
		t.Run(kind.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				st := newStand(t, testConfig(), kind.open(t, t.TempDir()))
				st.run()
				st.e.change(func(p *plant) { p.put(0, "old", "", "1"); p.put(2, "keep", "", "1") })
				st.trigger()
				st.e.change(func(p *plant) {
					spec := p.tables[0].t.Spec()
					spec.Version++
					p.tables[0].t = state.New(spec)
					delete(p.now, contentKey("s1", "acc", []byte("old"), nil))
					p.put(0, "new", "", "2")
				})
				st.trigger()
				_ = st.stop()
				st.restored()
				base, err := st.s.Rebase(t.Context(), st.c.current)
				if err != nil || base.Entries != 2 {
					t.Fatalf("base %+v, %v", base, err)
				}
				_ = st.s.Close()
			})
		})
	}
}

// TestSpecOfTable: Entries gives the spec of the time of writing, and found false for a table that is not there.
func TestSpecOfTable(t *testing.T) {
	s := openTestBolt(t, t.TempDir())
	p := newPlant()
	p.put(1, "k", "s", "v")
	m, err := p.checkpoint(t.Context(), s, nil, 1, 1, BaseRef{})
	if err != nil {
		t.Fatal(err)
	}
	src, _ := s.Load(m)
	spec, found, err := src.Entries("s1", "late", func(_, _, _ []byte) error { return nil })
	if err != nil || !found || spec != p.tables[1].t.Spec() {
		t.Errorf("%+v %v %v", spec, found, err)
	}
	if _, found, err = src.Entries("s1", "nothing", nil); found || err != nil {
		t.Errorf("%v %v", found, err)
	}
	stop := errors.New("stop")
	if _, _, err = src.Entries("s1", "late", func(_, _, _ []byte) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
}

// TestRandomHistories (rapid): puts, deletes, aborted and failed checkpoints, merges, prunes, crashes and restores against a model.
func TestRandomHistories(t *testing.T) {
	for _, kind := range storeKinds() {
		t.Run(kind.name, func(t *testing.T) {
			root := t.TempDir()
			runs := 0
			rapid.Check(t, func(rt *rapid.T) {
				runs++
				dir := filepath.Join(root, fmt.Sprint(runs))
				if err := os.Mkdir(dir, 0o700); err != nil {
					rt.Fatal(err)
				}
				randomHistory(t, rt, kind, dir)
			})
		})
	}
}

func randomHistory(t *testing.T, rt *rapid.T, kind storeKind, dir string) {
	ctx := context.Background()
	s := kind.open(t, dir)
	defer func() { _ = s.Close() }()
	p, r := newPlant(), newRand(rapid.Uint64().Draw(rt, "seed"))
	current, err := p.checkpoint(ctx, s, nil, 1, 1, BaseRef{})
	if err != nil {
		rt.Fatal(err)
	}
	id, kept, base := uint64(1), []uint64{1}, BaseRef{}
	for range rapid.IntRange(5, 25).Draw(rt, "steps") {
		switch rapid.SampledFrom([]string{"change", "change", "commit", "commit", "commit", "abort", "rebase", "restart", "fallback"}).Draw(rt, "step") {
		case "change":
			for range r.IntN(30) {
				randomChange(r, p, 20)
			}
		case "commit":
			id++
			oldest := append(kept, id)[max(0, len(kept)+1-3)]
			m, err := p.checkpoint(ctx, smallStore{s}, current, id, oldest, base)
			if err != nil {
				rt.Fatal(err)
			}
			current, base, kept = m, BaseRef{}, append(kept, id)
			kept = kept[max(0, len(kept)-3):]
			if err := s.Prune(ctx, oldest); err != nil {
				rt.Fatal(err)
			}
		case "abort": // encoded in part, then given up
			id++
			w, err := s.Begin(ctx, current, id)
			if err != nil {
				rt.Fatal(err)
			}
			smallRuns(w, 512, 128)
			for _, snap := range p.freeze(id) {
				if r.IntN(2) == 0 {
					_ = w.Write(ctx, snap.Task, snap.Parts)
				}
				for _, part := range snap.Parts {
					part.Frozen.Abort()
				}
			}
			w.Abort()
			p.at.drop(id)
		case "rebase":
			if base, err = s.Rebase(ctx, current); err != nil {
				rt.Fatal(err)
			}
		case "restart", "fallback":
			if err := s.Close(); err != nil {
				rt.Fatal(err)
			}
			s, base = kind.open(t, dir), BaseRef{}
			var passed uint64
			whole := func(_ []OutboxRange) error { return nil }
			if len(kept) > 1 && r.IntN(2) == 0 { // the newest one's outbox range is not whole
				passed = kept[len(kept)-1]
				first := true
				whole = func(_ []OutboxRange) error {
					if first {
						first = false
						return errors.New("results are missing")
					}
					return nil
				}
				kept = kept[:len(kept)-1]
			}
			res, err := Restore(ctx, RestoreOptions{Store: s, Pipeline: testPipeline, Whole: whole})
			if err != nil {
				rt.Fatal(err)
			}
			if res.Manifest.ID != kept[len(kept)-1] || (passed != 0) != (len(res.Fallbacks) == 1) {
				rt.Fatalf("restored %d, want %d, fallbacks %v", res.Manifest.ID, kept[len(kept)-1], res.Fallbacks)
			}
			if p, err = p.load(res.Source); err != nil {
				rt.Fatal(err)
			}
			if err := sameContent(p.now, p.at.get(res.Manifest.ID)); err != nil {
				rt.Fatalf("checkpoint %d: %v", res.Manifest.ID, err)
			}
			current, id = res.Manifest, max(id, s.LastID())
		}
		list, err := s.List(ctx)
		if err != nil || len(list.Manifests) != len(kept) {
			rt.Fatalf("%d live, want %v: %v", len(list.Manifests), kept, err)
		}
		for _, m := range list.Manifests {
			if err := readsBack(s, m, p.at.get(m.ID)); err != nil {
				rt.Fatal(err)
			}
		}
	}
}

var _ pipeline.StateSource = (*source)(nil)
