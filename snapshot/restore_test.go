package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

// threeCheckpoints makes a store with checkpoints 1, 2, 3 at positions 0, 10, 20.
func threeCheckpoints(t *testing.T, s Store) (*plant, []*Manifest) {
	t.Helper()
	p := newPlant()
	var out []*Manifest
	var parent *Manifest
	for id := uint64(1); id <= 3; id++ {
		m, err := p.checkpoint(t.Context(), s, parent, id, 1, BaseRef{})
		if err != nil {
			t.Fatal(err)
		}
		out, parent = append(out, m), m
		for i := range 10 {
			p.put(i%3, fmt.Sprint("k", i), "s", fmt.Sprint(id))
		}
	}
	return p, out
}

func eachKind(t *testing.T, f func(t *testing.T, kind storeKind, dir string)) {
	for _, kind := range storeKinds() {
		t.Run(kind.name, func(t *testing.T) { f(t, kind, t.TempDir()) })
	}
}

func TestRule9_SetAsideIsDurableBeforeRestoreReturns(t *testing.T) {
	eachKind(t, func(t *testing.T, kind storeKind, dir string) {
		s := kind.open(t, dir)
		threeCheckpoints(t, s)
		calls := 0
		opt := RestoreOptions{Store: s, Pipeline: testPipeline, Whole: func([]OutboxRange) error {
			if calls++; calls == 1 {
				return errors.New("result 17 is missing")
			}
			return nil
		}}
		r, err := Restore(t.Context(), opt)
		if err != nil || r.Manifest.ID != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		if len(r.Fallbacks) != 1 || !strings.Contains(r.Fallbacks[0].Reason, "result 17") {
			t.Errorf("fallbacks %v", r.Fallbacks)
		}
		_ = s.Close()
		s = kind.open(t, dir)
		defer s.Close()
		opt.Store = s
		if r, err = Restore(t.Context(), opt); err != nil || r.Manifest.ID != 2 || len(r.Fallbacks) != 0 {
			t.Fatalf("after a restart: %+v, %v", r, err)
		}
		list, _ := s.List(t.Context())
		if len(list.SetAside) != 1 || list.SetAside[0].ID != 3 {
			t.Errorf("%+v", list.SetAside)
		}
		if s.LastID() < 3 {
			t.Error("number 3 would be given out again")
		}
	})
}

func TestRule10_OutboxRangeMustBeWhole(t *testing.T) {
	eachKind(t, func(t *testing.T, kind storeKind, dir string) {
		s := kind.open(t, dir)
		defer s.Close()
		threeCheckpoints(t, s)
		_, err := Restore(t.Context(), RestoreOptions{Store: s, Pipeline: testPipeline, Whole: func([]OutboxRange) error { return errors.New("results 4 to 9 are lost") }})
		if !errors.Is(err, ErrNoValidCheckpoint) || strings.Count(err.Error(), "results 4 to 9 are lost") != 3 {
			t.Fatalf("got %v", err)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Error("more than one line")
		}
		list, _ := s.List(t.Context())
		if len(list.Manifests) != 3 {
			t.Error("a refused restore changed something")
		}
	})
}

func TestRule12_CheckpointBelowTheJournalIsNeverRestored(t *testing.T) {
	eachKind(t, func(t *testing.T, kind storeKind, dir string) {
		for first, want := range map[pipeline.Position]uint64{1: 3, 21: 3, 22: 0} {
			t.Run(fmt.Sprint(first), func(t *testing.T) {
				dir := t.TempDir()
				s := kind.open(t, dir)
				defer s.Close()
				threeCheckpoints(t, s)
				r, err := Restore(t.Context(), RestoreOptions{Store: s, Pipeline: testPipeline, JournalFirst: first})
				if want == 0 {
					if !errors.Is(err, ErrNoValidCheckpoint) {
						t.Fatalf("got %v", err)
					}
					return
				}
				if err != nil || r.Manifest.ID != want {
					t.Fatalf("got %+v, %v", r, err)
				}
			})
		}
		s := kind.open(t, dir)
		defer s.Close()
		threeCheckpoints(t, s)
		r, err := Restore(t.Context(), RestoreOptions{Store: s, Pipeline: testPipeline, JournalFirst: 1, JournalNext: 15})
		if err != nil || r.Manifest.ID != 2 {
			t.Fatalf("a checkpoint beyond the journal's end: %+v, %v", r, err)
		}
	})
}

func TestRule25_OnlyTheOwnLineage(t *testing.T) {
	eachKind(t, func(t *testing.T, kind storeKind, dir string) {
		s := kind.open(t, dir)
		defer s.Close()
		p, all := threeCheckpoints(t, s)
		write := func(id uint64, uuid UUID, inc Incarnation) {
			w, err := s.Begin(t.Context(), all[2], id)
			if err != nil {
				t.Fatal(err)
			}
			m := &Manifest{Pipeline: uuid, ID: id, Oldest: 1, Position: p.pos, Incarnation: inc, Tasks: testTasks, Tables: all[2].Tables}
			if err := w.Commit(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		write(4, testPipeline, Incarnation{1, 2})
		write(5, UUID{9}, Incarnation{})
		r, err := Restore(t.Context(), RestoreOptions{Store: s, Pipeline: testPipeline, Incarnations: []Incarnation{{}, {1, 3}}})
		if err != nil || r.Manifest.ID != 3 || len(r.Fallbacks) != 2 || r.Fallbacks[0].SetAside {
			t.Fatalf("%+v, %v", r, err)
		}
		if r, err = Restore(t.Context(), RestoreOptions{Store: s, Pipeline: testPipeline}); err != nil || r.Manifest.ID != 4 {
			t.Fatalf("%+v, %v", r, err)
		}
	})
}

func TestRestoreOfANewPipelineAndEmptyStart(t *testing.T) {
	eachKind(t, func(t *testing.T, kind storeKind, dir string) {
		s := kind.open(t, dir)
		defer s.Close()
		opt := RestoreOptions{Store: s, Pipeline: testPipeline, Whole: func([]OutboxRange) error { return errors.New("lost") }}
		if _, err := Restore(t.Context(), opt); !errors.Is(err, ErrNoCheckpoint) {
			t.Fatalf("got %v", err)
		}
		threeCheckpoints(t, s)
		opt.AllowEmpty = true
		r, err := Restore(t.Context(), opt)
		if err != nil || r.Manifest != nil || len(r.Fallbacks) != 3 {
			t.Fatalf("%+v, %v", r, err)
		}
		opt.AllowEmpty = false
		if _, err = Restore(t.Context(), opt); !errors.Is(err, ErrNoValidCheckpoint) {
			t.Fatalf("set aside looks like new: %v", err)
		}
		m, err := newPlant().checkpoint(t.Context(), s, nil, s.LastID()+1, s.LastID()+1, BaseRef{})
		if err != nil || m.ID != 4 {
			t.Fatalf("%+v, %v", m, err)
		}
		opt.Whole = nil
		if r, err = Restore(t.Context(), opt); err != nil || r.Manifest.ID != 4 {
			t.Fatalf("%+v, %v", r, err)
		}
		opt.Accept = func(*Manifest) error { return errors.New("another plan") }
		if _, err = Restore(t.Context(), opt); err == nil || errors.Is(err, ErrNoValidCheckpoint) {
			t.Fatalf("got %v", err)
		}
	})
}

// TestCase15_FullDiskLeavesTheLastGoodCheckpoint: while nothing can be appended no checkpoint is published, the last one stays valid, and the
// next one after that holds everything.
func TestCase15_FullDiskLeavesTheLastGoodCheckpoint(t *testing.T) {
	for _, full := range []string{"append", "sync"} {
		t.Run(full, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				dir, l := t.TempDir(), newMemLog()
				slow := &fullLog{memLog: l}
				s, err := newLogStore(context.Background(), LogOptions{FS: osFS, Dir: dir, Pipeline: testPipeline, Logger: discard()}, slow, chunkBytes)
				if err != nil {
					t.Fatal(err)
				}
				st := newStand(t, testConfig(), s)
				st.run()
				st.e.change(func(p *plant) { p.put(0, "a", "", "1") })
				good := st.trigger()
				if full == "append" {
					l.setFull(errFull)
				} else {
					slow.stuck.Store(true)
				}
				st.e.change(func(p *plant) { p.put(0, "a", "", "2"); p.put(0, "b", "", "2") })
				for range 4 {
					if _, err := st.c.Trigger(t.Context()); err == nil {
						t.Fatal("published on a full disk")
					}
				}
				if m := st.c.Metrics(); !m.Alarm || m.LastID != good.ID || st.o.released != good.ID {
					t.Fatalf("%+v", m)
				}
				st.restored()
				l.setFull(nil)
				slow.stuck.Store(false)
				st.e.change(func(p *plant) { p.put(0, "c", "", "3") })
				ck := st.trigger()
				if st.c.Metrics().Alarm || ck.ID <= good.ID {
					t.Fatal("no checkpoint after the disk had space again")
				}
				_ = st.stop()
				st.restored()
				_ = s.Close()
				again := openMemStore(t, dir, l)
				defer again.Close()
				st.s = again
				if r := st.restored(); r.Manifest.ID != ck.ID {
					t.Errorf("restored %d, want %d", r.Manifest.ID, ck.ID)
				}
			})
		})
	}
}

// fullLog is a log whose sync waits for space.
type fullLog struct {
	*memLog
	stuck atomic.Bool
}

func (l *fullLog) Sync(ctx context.Context) error {
	if l.stuck.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return l.memLog.Sync(ctx)
}
