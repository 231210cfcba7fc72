package snapshot

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/pebblekv"
)

// countedFS counts the bytes that are read from files.
type countedFS struct {
	disk.FS
	read *atomic.Uint64
}

func (c countedFS) Open(name string) (disk.File, error)   { return c.counted(c.FS.Open(name)) }
func (c countedFS) Create(name string) (disk.File, error) { return c.counted(c.FS.Create(name)) }

func (c countedFS) counted(f disk.File, err error) (disk.File, error) {
	if err != nil {
		return nil, err
	}
	return countedFile{f, c.read}, nil
}

type countedFile struct {
	disk.File
	read *atomic.Uint64
}

func (c countedFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := c.File.ReadAt(p, off)
	c.read.Add(uint64(n))
	return n, err
}

// countedLayers counts the bytes of chunks and blocks, unpacked, that a reading of the state takes from a store.
type countedLayers struct {
	layered
	read uint64
}

func (c *countedLayers) open(m *Manifest) ([]layer, error) {
	layers, err := c.layered.open(m)
	for i := range layers {
		layers[i].run = &countedRun{layers[i].run, &c.read}
	}
	return layers, err
}

type countedRun struct {
	run
	read *uint64
}

func (r *countedRun) body(ctx context.Context, i int) ([]byte, error) {
	b, err := r.run.body(ctx, i)
	*r.read += uint64(len(b))
	return b, err
}

const (
	restoreKeys        = 6_000
	restoreCheckpoints = 80
)

// manyCheckpoints makes a state of some 3 MB in three tables, then checkpoint upon checkpoint with a fiftieth of it changed, merging bases as the coordinator
// decides; unless never is planted. It gives the last manifest.
func manyCheckpoints(t *testing.T, s Store, cfg Config, never bool, keys int) *Manifest {
	t.Helper()
	p, r := newPlant(), newRand(7)
	val := make([]byte, 504)
	change := func(n int) {
		var key [16]byte
		binary.BigEndian.PutUint64(key[:], uint64(n)*0x9e3779b97f4a7c15)
		for j := 0; j < len(val); j += 8 {
			binary.LittleEndian.PutUint64(val[j:], r.Uint64())
		}
		p.put(n%3, string(key[:]), "sub", string(val))
	}
	for n := range keys {
		change(n)
	}
	var m *Manifest
	var base BaseRef
	for id := uint64(1); id <= restoreCheckpoints; id++ {
		oldest := max(id, 3) - 2
		next, err := p.checkpoint(t.Context(), s, m, id, oldest, base)
		if err != nil {
			t.Fatal(err)
		}
		p.at.clear() // what each held is not asked
		m, base = next, BaseRef{}
		if needsRebase(cfg, m) && !never {
			if base, err = s.Rebase(t.Context(), m); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Prune(t.Context(), oldest); err != nil {
			t.Fatal(err)
		}
		for range keys / 50 {
			change(int(r.Uint64() % uint64(keys)))
		}
	}
	return m
}

// readWhole reads a checkpoint as the engine does, and gives the bytes of its entries.
func readWhole(s layered, m *Manifest) (read, entries uint64, err error) {
	c := &countedLayers{layered: s}
	err = (&source{c, m}).Every(func(string, string, state.Spec) (func(key, sub, val []byte) error, error) {
		return func(key, sub, val []byte) error {
			entries += uint64(len(key) + len(sub) + len(val))
			return nil
		}, nil
	})
	return c.read, entries, err
}

// TestOneReadingGivesWhatOneForEachTableGives, to the tables that are wanted.
func TestOneReadingGivesWhatOneForEachTableGives(t *testing.T) {
	cfg := Default()
	cfg.RebaseDeltas = 7
	s, err := openTestLog(disk.OS, t.TempDir(), 4<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	src := &source{s, manyCheckpoints(t, s, cfg, false, 300)}
	want, err := contentOf(src)
	if err != nil {
		t.Fatal(err)
	}
	got := content{}
	err = src.Every(func(uid, name string, written state.Spec) (func(key, sub, val []byte) error, error) {
		if spec, found, err := src.Entries(uid, name, func(_, _, _ []byte) error { return nil }); err != nil || !found || spec != written {
			t.Fatalf("table %s/%s is told as %+v, was %+v: %v", uid, name, written, spec, err)
		}
		if uid == "s2" {
			return nil, nil
		}
		return func(key, sub, val []byte) error {
			k := contentKey(uid, name, key, sub)
			if _, twice := got[k]; twice {
				t.Fatalf("%s comes twice", k)
			}
			got[k] = string(val)
			return nil
		}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(want, func(k, _ string) bool { return strings.HasPrefix(k, "s2/") })
	if err := sameContent(got, want); err != nil {
		t.Error(err)
	}
}

// restoreStores opens each kind of store in a directory; files counts what is read, where files are read.
var restoreStores = map[string]func(dir string, files disk.FS) (Store, error){
	"log": func(dir string, files disk.FS) (Store, error) { return openTestLog(files, dir, 4<<20) },
	"pebble": func(dir string, files disk.FS) (Store, error) {
		return OpenPebble(context.Background(), LogOptions{FS: files, Dir: dir, Pipeline: testPipeline, Logger: discard()})
	},
	"bbolt": func(dir string, _ disk.FS) (Store, error) {
		return OpenBolt(BoltOptions{Path: filepath.Join(dir, "checkpoints.bolt"), Pipeline: testPipeline})
	},
}

// TestRestoreReadsABoundedMultipleOfTheState: after many incremental checkpoints a restore reads (1 + rebase_ratio) times the state and what the last deltas and the
// smallest base worth merging add. When no base is ever merged, it shows.
func TestRestoreReadsABoundedMultipleOfTheState(t *testing.T) {
	for name, open := range restoreStores {
		if name == "pebble" && !pebblekv.Built {
			continue
		}
		for _, never := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/never merged %v", name, never), func(t *testing.T) {
				cfg := Default()
				cfg.RebaseRatio, cfg.RebaseDeltas = 0.5, 1000
				dir := t.TempDir()
				files := countedFS{disk.OS, &atomic.Uint64{}}
				s, err := open(dir, files)
				if err != nil {
					t.Fatal(err)
				}
				m := manyCheckpoints(t, s, cfg, never, restoreKeys)
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				files.read.Store(0)
				if s, err = open(dir, files); err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				opened := files.read.Swap(0)
				if err := s.Verify(t.Context(), m); err != nil {
					t.Fatal(err)
				}
				verified := files.read.Swap(0)
				read, size, err := readWhole(s.(layered), m)
				if err != nil {
					t.Fatal(err)
				}
				delta := size / 50
				bound := uint64(1.5*float64(size)) + rebaseBytesMin + 2*delta
				t.Logf("state %d, read %d = %.2f of it, bound %.2f; of files %d opening, %d verifying, %d loading; %d frames, base %d",
					size, read, float64(read)/float64(size), float64(bound)/float64(size), opened, verified, files.read.Load(), len(m.Frames), m.Base.Unpacked)
				if loaded := files.read.Load(); !never && (verified > bound || loaded > 2*bound) { // packed; a block of the log may be read for each of its chunks
					t.Errorf("%d bytes of files are read to verify and %d to load, allowed are %d and %d", verified, loaded, bound, 2*bound)
				}
				if (read > bound) != never {
					t.Errorf("%d bytes are read of a state of %d, allowed are %d; never merged: %v", read, size, bound, never)
				}
			})
		}
	}
}
