package snapshot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/store/disk"
)

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
