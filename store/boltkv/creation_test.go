package boltkv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"go.etcd.io/bbolt"
)

// op is one thing that the making and first use of a file does to the disk.
type op struct {
	kind string // "create", "remove", "write", "sync", "rename" (to name, from old), "syncdir", "promise"
	name string // without the directory; of a promise: "made", "used"
	old  string
	off  int
	data []byte
}

// history notes what create does, step by step, and what the first transactions write. bbolt writes a new file at once and syncs it
// (db.go: init); it syncs before and after each meta page (tx.go: write, writeMeta) and when it has grown the file (db.go: grow).
type history struct {
	t   *testing.T
	dir string
	ops []op
}

func (h *history) note(o op) { h.ops = append(h.ops, o) }

func (h *history) steps() steps {
	s := osSteps(Options{})
	s.remove = func(path string) error {
		err := os.Remove(path)
		if err == nil {
			h.note(op{kind: "remove", name: filepath.Base(path)})
		}
		return err
	}
	s.open = func(path string, o Options) (*bbolt.DB, error) {
		b, err := openBolt(path, o)
		if err == nil {
			h.note(op{kind: "create", name: filepath.Base(path)})
			h.note(op{kind: "write", name: filepath.Base(path), data: h.read(path)})
			h.note(op{kind: "sync", name: filepath.Base(path)})
		}
		return b, err
	}
	s.rename = func(from, to string) error {
		h.note(op{kind: "rename", name: filepath.Base(to), old: filepath.Base(from)})
		return os.Rename(from, to)
	}
	s.sync = func(path string) error {
		if path == h.dir {
			h.note(op{kind: "syncdir"})
		} else {
			h.note(op{kind: "sync", name: filepath.Base(path)})
		}
		return syncPath(path)
	}
	return s
}

func (h *history) read(path string) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		h.t.Fatal(err)
	}
	return b
}

const dbName = "x.bolt"

// use makes a bucket with a key, and notes how.
func (h *history) use() {
	path := filepath.Join(h.dir, dbName)
	b, err := openBolt(path, Options{LockTimeout: 1e9, MmapBytes: 64 << 10})
	if err != nil {
		h.t.Fatal(err)
	}
	defer b.Close()
	image := h.read(path)
	size, page := int64(len(image)), int64(binary.LittleEndian.Uint32(image[24:]))
	field := reflect.ValueOf(b).Elem().FieldByName("ops").FieldByName("writeAt")
	hook := (*func([]byte, int64) (int, error))(unsafe.Pointer(field.UnsafeAddr()))
	write := *hook
	*hook = func(p []byte, off int64) (int, error) {
		if info, err := os.Stat(path); err == nil && info.Size() > size {
			h.note(op{kind: "write", name: dbName, off: int(info.Size())})
			h.note(op{kind: "sync", name: dbName})
			size = info.Size()
		}
		if off < 2*page {
			h.note(op{kind: "sync", name: dbName})
		}
		h.note(op{kind: "write", name: dbName, off: int(off), data: bytes.Clone(p)})
		if off < 2*page {
			h.note(op{kind: "sync", name: dbName})
		}
		return write(p, off)
	}
	err = b.Update(func(tx *Tx) error {
		k, err := tx.CreateBucket([]byte("used"))
		if err != nil {
			return err
		}
		return k.Put([]byte("key"), bytes.Repeat([]byte("value"), 300))
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.note(op{kind: "promise", name: "used"})
}

// verdictOf opens what a power cut left.
func verdictOf(dir string, files map[string][]byte, promise string) error {
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			return err
		}
	}
	path := filepath.Join(dir, dbName)
	if _, ok := files[dbName]; !ok && promise != "" {
		return errors.New("the file was made and is gone")
	}
	d, err := Open(path, Options{NoSync: true})
	if err != nil {
		return err
	}
	defer d.Close()
	used := false
	err = d.Update(func(tx *Tx) error {
		if b := tx.Bucket([]byte("used")); b != nil {
			used = len(b.Get([]byte("key"))) == 1500
		}
		_, err := tx.CreateBucket([]byte("next"))
		return err
	})
	switch {
	case err != nil:
		return err
	case promise == "used" && !used:
		return errors.New("what was committed is gone")
	}
	if _, err := os.Stat(path + ".tmp"); err == nil && files[dbName] == nil {
		return errors.New("temporary file left")
	}
	return d.Check()
}

// crashStates makes a file with a changed set of steps, uses it, and tries what a power cut at each point leaves. leftovers are what an
// earlier power cut left under the temporary name; random is how many random subsets are tried at each point, beside the regular ones.
func crashStates(t *testing.T, plant func(*history, *steps), random int, leftovers [][]byte) (states, bad int, example error) {
	t.Helper()
	seen, seed := map[uint64]bool{}, maphash.MakeSeed()
	tries := newTries(t.TempDir())
	r := rand.New(rand.NewPCG(11, 7))
	stale := staleImage(t)
	for _, left := range leftovers {
		h := &history{t: t, dir: t.TempDir()}
		d := &diskState{names: map[string]int{}}
		if left != nil {
			if err := os.WriteFile(filepath.Join(h.dir, dbName+".tmp"), left, 0o600); err != nil {
				t.Fatal(err)
			}
			d.files, d.names[dbName+".tmp"] = []diskFile{{durable: left}}, 0
		}
		s := h.steps()
		plant(h, &s)
		if err := create(filepath.Join(h.dir, dbName), Options{LockTimeout: 1e9, MmapBytes: 64 << 10}, s); err != nil {
			t.Fatal(err)
		}
		h.note(op{kind: "promise", name: "made"})
		h.use()
		for _, o := range h.ops {
			d.do(o)
			d.images(random, r, stale, func(files map[string][]byte) {
				if sum := sumOf(seed, files, d.promise); !seen[sum] {
					seen[sum] = true
					tries.start(files, d.promise, o.kind+" "+o.name)
				}
			})
		}
	}
	bad, example = tries.wait()
	return len(seen), bad, example
}

// tries opens crash states a few at a time: each waits for the disk.
type tries struct {
	root    string
	running sync.WaitGroup
	slots   chan struct{}

	mu      sync.Mutex
	bad     int
	example error
}

// triesMax is how many wait for the disk at once.
const triesMax = 8

func newTries(root string) *tries { return &tries{root: root, slots: make(chan struct{}, triesMax)} }

func (y *tries) start(files map[string][]byte, promise, after string) {
	y.slots <- struct{}{}
	y.running.Go(func() {
		defer func() { <-y.slots }()
		dir, err := os.MkdirTemp(y.root, "")
		if err == nil {
			err = verdictOf(dir, files, promise)
			_ = os.RemoveAll(dir)
		}
		if err != nil {
			y.mu.Lock()
			defer y.mu.Unlock()
			y.bad++
			y.example = fmt.Errorf("after %s: %w", after, err)
		}
	})
}

func (y *tries) wait() (bad int, example error) {
	y.running.Wait()
	return y.bad, y.example
}

func sumOf(seed maphash.Seed, files map[string][]byte, promise string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(promise)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		maphash.WriteComparable(&h, struct {
			name string
			n    int
		}{name, len(files[name])})
		_, _ = h.Write(files[name])
	}
	return h.Sum64()
}

// staleImage is a database that once lay in the same blocks: larger, with a later transaction.
func staleImage(t *testing.T) []byte {
	path := filepath.Join(t.TempDir(), "stale")
	d := open(t, path)
	fill(t, d, 100)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tornLeftovers are files that an earlier power cut left under the temporary name.
func tornLeftovers(t *testing.T) [][]byte {
	stale := staleImage(t)
	return [][]byte{nil, {}, make([]byte, 16<<10), stale[:4<<10], stale[:9000]}
}

// TestCreationCrashStates: whatever a power cut leaves of a file being made, it opens, or it is made anew; never is it taken for damage, a
// panic or a SIGBUS. Once Open has returned the file stays, and once a transaction has returned what it wrote.
func TestCreationCrashStates(t *testing.T) {
	states, bad, example := crashStates(t, func(*history, *steps) {}, 150, tornLeftovers(t))
	if bad > 0 {
		t.Errorf("%d states fail, such as %v", bad, example)
	}
	if states < 2000 {
		t.Errorf("only %d states", states)
	}
	t.Logf("%d states, %d failures", states, bad)
}

// TestCreationCrashStatesFindPlantedFaults shows that the states above can fail.
func TestCreationCrashStatesFindPlantedFaults(t *testing.T) {
	for name, plant := range map[string]func(*history, *steps){
		"made in place": func(h *history, s *steps) {
			s.tmpName = func(path string) string { return path }
			s.remove = func(string) error { return fs.ErrNotExist }
		},
		"directory not synced": func(h *history, s *steps) {
			sync := s.sync
			s.sync = func(path string) error {
				if path == h.dir {
					return nil
				}
				return sync(path)
			}
		},
		"renamed before it is synced": func(h *history, s *steps) {
			noted := s.open
			s.open = func(path string, o Options) (*bbolt.DB, error) {
				b, err := noted(path, o)
				n := len(h.ops) - 1
				h.ops = h.ops[:n] // bbolt's own sync is left out too
				return b, err
			}
			s.sync = func(path string) error {
				if path == h.dir {
					h.note(op{kind: "syncdir"})
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			states, bad, example := crashStates(t, plant, 8, [][]byte{nil})
			if bad == 0 {
				t.Errorf("not found in %d states", states)
			}
			t.Logf("%d of %d states fail, such as %v", bad, states, example)
		})
	}
}
