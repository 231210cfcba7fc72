package snapshot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
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

// damages are the eleven kinds of case 13, done to a file.
var damages = []struct {
	what string
	do   func(t *testing.T, path string)
}{
	{"length 0", func(t *testing.T, path string) { rewrite(t, path, func(b []byte) []byte { return nil }) }},
	{"length 1", func(t *testing.T, path string) { rewrite(t, path, func(b []byte) []byte { return b[:1] }) }},
	{"cut in half", func(t *testing.T, path string) { rewrite(t, path, func(b []byte) []byte { return b[:len(b)/2] }) }},
	{"cut by 1 byte", func(t *testing.T, path string) { rewrite(t, path, func(b []byte) []byte { return b[:len(b)-1] }) }},
	{"all NUL, same length", func(t *testing.T, path string) { rewrite(t, path, func(b []byte) []byte { clear(b); return b }) }},
	{"one bit flipped in the middle", func(t *testing.T, path string) {
		rewrite(t, path, func(b []byte) []byte { b[len(b)/2] ^= 4; return b })
	}},
	{"last 4 KiB NUL", func(t *testing.T, path string) {
		rewrite(t, path, func(b []byte) []byte { clear(b[max(0, len(b)-4096):]); return b })
	}},
	{"file missing", func(t *testing.T, path string) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}},
}

func rewrite(t *testing.T, path string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, f(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// twoBases makes a LogStore in which the newest checkpoint stands on a base of its own, the one before on older frames.
func twoBases(t *testing.T, dir string, l *memLog) (*LogStore, *plant, []*Manifest) {
	t.Helper()
	s := openMemStore(t, dir, l)
	p, all := threeCheckpoints(t, s)
	base, err := s.Rebase(t.Context(), all[2])
	if err != nil {
		t.Fatal(err)
	}
	m, err := p.checkpoint(t.Context(), s, all[2], 4, 1, base)
	if err != nil {
		t.Fatal(err)
	}
	return s, p, append(all, m)
}

// TestCase13_DamagedSnapshots does each kind of damage to the newest checkpoint's file: the one before is restored, the damage is reported, the
// file is kept. When every checkpoint is damaged the restore refuses.
func TestCase13_DamagedSnapshots(t *testing.T) {
	expect := func(t *testing.T, s Store, p *plant, want uint64) {
		t.Helper()
		r, err := Restore(t.Context(), RestoreOptions{Store: s, Pipeline: testPipeline})
		if err != nil {
			t.Fatal(err)
		}
		if r.Manifest.ID != want || want != 4 && len(r.Fallbacks) == 0 {
			t.Fatalf("restored %d, want %d, reports %v", r.Manifest.ID, want, r.Fallbacks)
		}
		if err := readsBack(s, r.Manifest, p.at.get(want)); err != nil {
			t.Fatal(err)
		}
		if want == 4 {
			return
		}
		// It goes on from there, and the damaged one does not come back.
		q, err := p.load(r.Source)
		if err != nil {
			t.Fatal(err)
		}
		q.put(0, "more", "", "1")
		m, err := q.checkpoint(t.Context(), s, r.Manifest, s.LastID()+1, r.Manifest.ID, BaseRef{})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Prune(t.Context(), m.Oldest); err != nil {
			t.Fatal(err)
		}
		if r, err = Restore(t.Context(), RestoreOptions{Store: s, Pipeline: testPipeline}); err != nil || r.Manifest.ID != m.ID {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	for _, d := range damages {
		t.Run("log base/"+d.what, func(t *testing.T) {
			dir, l := t.TempDir(), newMemLog()
			s, p, all := twoBases(t, dir, l)
			path := filepath.Join(dir, baseName(all[3].Base.Serial))
			_ = s.Close()
			d.do(t, path)
			before, _ := os.ReadFile(path)
			s = openMemStore(t, dir, l)
			defer s.Close()
			expect(t, s, p, 3)
			if d.what == "file missing" {
				return
			}
			kept, err := os.ReadFile(filepath.Join(dir, "aside-"+filepath.Base(path)))
			if err != nil || !slices.Equal(kept, before) {
				t.Errorf("damaged base was not kept: %v", err)
			}
		})
		t.Run("bolt file/"+d.what, func(t *testing.T) {
			dir := t.TempDir()
			s := openTestBolt(t, dir)
			p, _ := threeCheckpoints(t, s)
			_ = s.Close()
			d.do(t, s.o.Path)
			again, err := OpenBolt(BoltOptions{Path: s.o.Path, Pipeline: testPipeline})
			if err != nil {
				t.Fatal(err)
			}
			defer again.Close()
			r, err := Restore(t.Context(), RestoreOptions{Store: again, Pipeline: testPipeline})
			if d.what == "file missing" { // there is nothing left that could tell
				if !errors.Is(err, ErrNoCheckpoint) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil {
				if !errors.Is(err, ErrNoValidCheckpoint) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err := readsBack(again, r.Manifest, p.at.get(r.Manifest.ID)); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("manifest length 0", func(t *testing.T) {
		dir := t.TempDir()
		s := openTestBolt(t, dir)
		p, _ := threeCheckpoints(t, s)
		if err := s.db.Update(func(tx *boltTx) error { return tx.Bucket(bucketCheckpoint).Put(be(3), nil) }); err != nil {
			t.Fatal(err)
		}
		expect(t, s, p, 2)
	})
	t.Run("temp file left beside it", func(t *testing.T) {
		dir, l := t.TempDir(), newMemLog()
		s, p, _ := twoBases(t, dir, l)
		_ = s.Close()
		tmp := filepath.Join(dir, baseName(77)+tmpSuffix)
		if err := os.WriteFile(tmp, []byte("half a base"), 0o600); err != nil {
			t.Fatal(err)
		}
		s = openMemStore(t, dir, l)
		defer s.Close()
		expect(t, s, p, 4)
		if _, err := os.Stat(tmp); err == nil {
			t.Error("temporary file left")
		}
	})
	t.Run("both newest and one before damaged", func(t *testing.T) {
		dir, l := t.TempDir(), newMemLog()
		s, p, all := twoBases(t, dir, l)
		defer s.Close()
		rewrite(t, filepath.Join(dir, baseName(all[3].Base.Serial)), func(b []byte) []byte { return b[:50] })
		last := all[2].Frames[len(all[2].Frames)-1]
		l.recs[last.First-l.first][40] ^= 1
		expect(t, s, p, 2)
	})
	t.Run("all damaged", func(t *testing.T) {
		dir, l := t.TempDir(), newMemLog()
		s, _, all := twoBases(t, dir, l)
		defer s.Close()
		rewrite(t, filepath.Join(dir, baseName(all[3].Base.Serial)), func(b []byte) []byte { return b[:50] })
		for i := range l.recs { // the first record is the manifest of checkpoint 1
			if i == 0 {
				l.recs[i] = nil
			} else if l.recs[i][0] == kindChunk {
				l.recs[i][25] ^= 8
			}
		}
		_, err := Restore(t.Context(), RestoreOptions{Store: openMemStore(t, dir, l), Pipeline: testPipeline})
		if !errors.Is(err, ErrNoValidCheckpoint) || strings.Contains(err.Error(), "\n") {
			t.Fatalf("got %v", err)
		}
	})
}

// TestCase13_DamagedLogSegments does the damage to the segment that holds the newest checkpoint, with a catalog beside. What is restored
// is whole; when nothing is left the restore refuses, and never takes the pipeline for a new one.
func TestCase13_DamagedLogSegments(t *testing.T) {
	for _, d := range damages {
		for _, segments := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s/%d segments", d.what, segments), func(t *testing.T) {
				dir := t.TempDir()
				open := func() *LogStore {
					cfg := DefaultLogConfig()
					cfg.SegmentBytes, cfg.MaxBytes = 16<<10, 1<<20
					s, err := OpenLog(t.Context(), LogOptions{
						FS: disk.OS, Dir: dir, Pipeline: testPipeline, Log: &cfg, Catalog: filepath.Join(dir, "catalog.bolt"), Logger: discard(),
					})
					if err != nil {
						t.Fatal(err)
					}
					return s
				}
				s := open()
				p, r := newPlant(), newRand(1)
				var m *Manifest
				var err error
				names := func() (out []string) {
					list, err := os.ReadDir(filepath.Join(dir, "log"))
					if err != nil {
						t.Fatal(err)
					}
					for _, e := range list {
						if strings.HasSuffix(e.Name(), ".seg") {
							out = append(out, e.Name())
						}
					}
					return out
				}
				id := uint64(0)
				for id < 4 || len(names()) < segments {
					id++
					if m, err = p.checkpoint(t.Context(), s, m, id, 1, BaseRef{}); err != nil {
						t.Fatal(err)
					}
					for range 20 {
						randomChange(r, p, 1000)
					}
				}
				_ = s.Close()
				seg := names()
				d.do(t, filepath.Join(dir, "log", seg[len(seg)-1]))
				s = open()
				defer s.Close()
				res, err := Restore(t.Context(), RestoreOptions{Store: s, Pipeline: testPipeline})
				if err != nil {
					if !errors.Is(err, ErrNoValidCheckpoint) || segments > 1 {
						t.Fatalf("got %v", err)
					}
					return
				}
				if err := readsBack(s, res.Manifest, p.at.get(res.Manifest.ID)); err != nil {
					t.Fatal(err)
				}
				if next := s.LastID() + 1; next <= id {
					t.Errorf("checkpoint number %d would be given out again", next)
				}
			})
		}
	}
}

// TestCatalogIsRebuilt: a damaged or missing catalog is made anew from the log.
func TestCatalogIsRebuilt(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "catalog.bolt")
	open := func() *LogStore {
		s, err := OpenLog(t.Context(), LogOptions{FS: disk.OS, Dir: dir, Pipeline: testPipeline, Catalog: path, Logger: discard()})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	threeCheckpoints(t, s)
	_ = s.Close()
	for _, damage := range []func(){func() { rewrite(t, path, func(b []byte) []byte { return b[:100] }) }, func() { _ = os.Remove(path) }} {
		damage()
		s = open()
		if r, err := Restore(t.Context(), RestoreOptions{Store: s, Pipeline: testPipeline}); err != nil || r.Manifest.ID != 3 {
			t.Fatalf("%+v, %v", r, err)
		}
		_ = s.Close()
		c, err := openCatalog(path, discard())
		if err != nil {
			t.Fatal(err)
		}
		if used, newest := c.last(); used != 3 || newest != 3 {
			t.Errorf("catalog knows %d, newest %d", used, newest)
		}
		_ = c.close()
	}
	if _, err := os.Stat(path + ".bad-1"); err != nil {
		t.Errorf("damaged catalog was not kept: %v", err)
	}
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
