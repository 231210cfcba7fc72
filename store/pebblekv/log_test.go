//go:build !nopebble

package pebblekv

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/weirstream/weir/store/disk/disktest"
)

// teller calls op before each operation that changes a file system.
type teller struct {
	vfs.FS
	op func()
}

func (t teller) Create(name string, w vfs.DiskWriteCategory) (vfs.File, error) {
	t.op()
	f, err := t.FS.Create(name, w)
	return toldFile{f, t.op}, err
}

func (t teller) ReuseForWrite(from, to string, w vfs.DiskWriteCategory) (vfs.File, error) {
	t.op()
	f, err := t.FS.ReuseForWrite(from, to, w)
	return toldFile{f, t.op}, err
}

func (t teller) OpenDir(name string) (vfs.File, error) {
	f, err := t.FS.OpenDir(name)
	return toldFile{f, t.op}, err
}

func (t teller) Remove(name string) error     { t.op(); return t.FS.Remove(name) }
func (t teller) Rename(from, to string) error { t.op(); return t.FS.Rename(from, to) }

type toldFile struct {
	vfs.File
	op func()
}

func (f toldFile) Write(p []byte) (int, error)  { f.op(); return f.File.Write(p) }
func (f toldFile) Sync() error                  { f.op(); return f.File.Sync() }
func (f toldFile) SyncData() error              { f.op(); return f.File.SyncData() }
func (f toldFile) SyncTo(n int64) (bool, error) { f.op(); return f.File.SyncTo(n) }

// logCrash clones the disk at every operation with 0, 50 and 100 % of what was not synced, and opens the clone.
type logCrash struct {
	t       *testing.T
	mem     *vfs.MemFS
	random  *rand.Rand
	synced  atomic.Uint64 // Sync returned
	first   atomic.Uint64 // Trim was called with it
	mu      sync.Mutex    // Pebble's goroutines call op too
	states  int
	failure error
}

func record(pos uint64) []byte {
	return []byte(strings.Repeat(fmt.Sprint("record ", pos, " "), int(pos%40)))
}

func (c *logCrash) op() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		return
	}
	for _, percent := range []int{0, 50, 100} {
		c.states++
		synced := c.synced.Load() // before the image: what is promised meanwhile is not asked for
		image := c.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: c.random})
		if err := c.judge(image, synced); err != nil {
			c.failure = fmt.Errorf("%d %% of what was not synced, %d synced: %w", percent, synced, err)
		}
	}
}

func (c *logCrash) judge(image *vfs.MemFS, synced uint64) error {
	l, err := openLog(LogOptions{FS: disktest.NewMem(), Dir: "kv"}, image)
	if err != nil {
		return err
	}
	defer l.Close()
	if len(l.Aside()) > 0 {
		return fmt.Errorf("a crash is not damage: %v", l.Aside())
	}
	if l.Last() < synced {
		return fmt.Errorf("the log ends at %d", l.Last())
	}
	if first := c.first.Load(); l.First() > first {
		return fmt.Errorf("the log begins at %d, it was trimmed to %d", l.First(), first)
	}
	n := l.First()
	err = l.Scan(context.Background(), n, func(pos uint64, rec []byte) (bool, error) {
		if pos != n || string(rec) != string(record(pos)) {
			return false, fmt.Errorf("record %d reads %.20q", pos, rec)
		}
		n++
		return true, nil
	})
	if err == nil && n != l.Last()+1 {
		err = fmt.Errorf("records end at %d, Last is %d", n-1, l.Last())
	}
	return err
}

// runLogCrash tells the story of a log; fault is planted in it.
func runLogCrash(t *testing.T, seed uint64, fault logFault) *logCrash {
	c := &logCrash{t: t, mem: vfs.NewCrashableMem(), random: rand.New(rand.NewPCG(seed, 1))}
	c.first.Store(1)
	draw := rand.New(rand.NewPCG(seed, 2))
	l, err := openLog(LogOptions{FS: disktest.NewMem(), Dir: "kv", fault: fault}, teller{c.mem, func() { c.op() }})
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		for range draw.IntN(6) {
			if _, err := l.Append([]byte("")[:0], record(l.Last()+1)); err != nil {
				t.Fatal(err)
			}
		}
		last := l.Last()
		if err := l.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		c.synced.Store(last)
		c.op()
		if draw.IntN(4) == 0 {
			first := l.First() + draw.Uint64N(last-l.First()+2)
			c.first.Store(max(first, c.first.Load()))
			if err := l.Trim(first); err != nil {
				t.Fatal(err)
			}
		}
		if draw.IntN(8) == 0 {
			if err := l.pebble.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestLogSurvivesCrashes: after any crash the log holds an unbroken run that ends at or behind the last Sync.
func TestLogSurvivesCrashes(t *testing.T) {
	states := 0
	for seed := range uint64(3) {
		c := runLogCrash(t, seed, logFault{})
		if states += c.states; c.failure != nil {
			t.Errorf("seed %d: %v", seed, c.failure)
		}
	}
	t.Logf("%d states", states)
}

// TestDisorderIsFound leaves out what orderly adds: Pebble's marker can then outlive the manifest that it names.
func TestDisorderIsFound(t *testing.T) {
	for seed := range uint64(40) {
		if c := runLogCrash(t, seed, logFault{disorderly: true}); c.failure != nil {
			t.Logf("found with seed %d: %v", seed, c.failure)
			return
		}
	}
	t.Fatal("not found")
}

// TestUnsyncedIsFound plants a Sync that does not sync.
func TestUnsyncedIsFound(t *testing.T) {
	c := runLogCrash(t, 1, logFault{unsynced: true})
	if c.failure == nil {
		t.Fatal("not found")
	}
	t.Log("found: ", c.failure)
}

// TestDamagedLogIsSetAside: a damaged directory is kept under other names, and what opens is empty and says so.
func TestDamagedLogIsSetAside(t *testing.T) {
	for _, file := range []string{"MANIFEST", "sst"} {
		t.Run(file, func(t *testing.T) {
			mem := disktest.NewMem()
			o := LogOptions{FS: mem, Dir: "kv"}
			l, err := OpenLog(o)
			if err != nil {
				t.Fatal(err)
			}
			for range 100 {
				if _, err := l.Append(record(39)); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(l.Sync(t.Context()), l.pebble.Flush(), l.Close()); err != nil {
				t.Fatal(err)
			}
			names, err := mem.List("kv")
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range names {
				f, err := mem.Open("kv/" + n)
				if err != nil {
					t.Fatal(err)
				}
				if size, err := f.Size(); strings.Contains(n, file) && size > 60 && err == nil {
					for off := range int64(60) {
						mem.Flip("kv/"+n, off, 3)
					}
				}
			}
			l, err = OpenLog(o)
			if file == "sst" && err == nil && len(l.Aside()) == 0 { // found when it is read
				err = l.Scan(t.Context(), 1, func(uint64, []byte) (bool, error) { return true, nil })
				if !errors.Is(err, ErrDamaged) {
					t.Errorf("reading a damaged table ends with %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if len(l.Aside()) < len(names)-1 || l.Last() != 0 {
				t.Errorf("set aside are %v of %v, the log ends at %d", l.Aside(), names, l.Last())
			}
		})
	}
}

// TestFullDiskTakesNothing: Pebble is not let run into a full disk.
func TestFullDiskTakesNothing(t *testing.T) {
	mem := disktest.NewMem()
	l, err := OpenLog(LogOptions{FS: mem, Dir: "kv"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	mem.SetFree(reserveBytes - 1)
	if _, err := l.Append([]byte("x")); !errors.Is(err, ErrFull) || l.Last() != 0 {
		t.Fatalf("append on a full disk: %v, last %d", err, l.Last())
	}
	mem.SetFree(reserveBytes)
	if pos, err := l.Append([]byte("x")); err != nil || pos != 1 {
		t.Fatalf("append: %d, %v", pos, err)
	}
}

// TestFailedSyncLatches: after a failed sync nothing is promised until the log is opened again.
func TestFailedSyncLatches(t *testing.T) {
	mem := disktest.NewMem()
	l, err := OpenLog(LogOptions{FS: mem, Dir: "kv"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append([]byte("x")); err != nil {
		t.Fatal(err)
	}
	mem.FailSyncs(1)
	if err := l.Sync(t.Context()); !errors.Is(err, ErrFailed) {
		t.Fatalf("a failed sync gives %v", err)
	}
	if err := l.Sync(t.Context()); !errors.Is(err, ErrFailed) {
		t.Errorf("the next sync gives %v", err)
	}
	if _, err := l.Append([]byte("y")); !errors.Is(err, ErrFailed) {
		t.Errorf("append gives %v", err)
	}
}
