package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"unsafe"

	"github.com/weirstream/weir/store/boltkv"
)

// boltRecorder notes what bbolt writes. bbolt syncs before and after each write of a meta page (tx.go: write, writeMeta) and after it
// has grown the file (db.go: grow); that is what the crash states below assume.
type boltRecorder struct {
	path  string
	image []byte // when the recording began
	size  int64

	mu  sync.Mutex // a merge writes beside the coordinator, and the story counts
	ops []boltOp
}

type boltOp struct {
	off  int64 // -1: sync, -2: the file grew to size
	data []byte
	size int64
}

const (
	opSync = -1
	opGrow = -2
)

func recordBolt(t *testing.T, s *BoltStore) *boltRecorder {
	t.Helper()
	r := &boltRecorder{path: s.db.Path()}
	var err error
	if r.image, err = os.ReadFile(r.path); err != nil {
		t.Fatal(err)
	}
	r.size = int64(len(r.image))
	db := reflect.ValueOf(s.db).Elem().FieldByName("bolt").Elem()
	field := db.FieldByName("ops").FieldByName("writeAt")
	hook := (*func([]byte, int64) (int, error))(unsafe.Pointer(field.UnsafeAddr()))
	write := *hook
	page := int64(binary.LittleEndian.Uint32(r.image[24:]))
	*hook = func(b []byte, off int64) (int, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if info, err := os.Stat(r.path); err == nil && info.Size() > r.size {
			r.size = info.Size()
			r.ops = append(r.ops, boltOp{off: opGrow, size: r.size}, boltOp{off: opSync})
		}
		meta := off < 2*page
		if meta {
			r.ops = append(r.ops, boltOp{off: opSync})
		}
		r.ops = append(r.ops, boltOp{off: off, data: append([]byte(nil), b...)})
		if meta {
			r.ops = append(r.ops, boltOp{off: opSync})
		}
		return write(b, off)
	}
	return r
}

// count is how many operations there were so far.
func (r *boltRecorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ops)
}

func apply(img []byte, op boltOp) []byte {
	need := op.off + int64(len(op.data))
	if op.off == opGrow {
		need = op.size
	}
	if op.off == opSync {
		return img
	}
	if int64(len(img)) < need {
		img = append(img, make([]byte, need-int64(len(img)))...)
	}
	if op.off >= 0 {
		copy(img[op.off:], op.data)
	}
	return img
}

// states gives the images that a crash can leave: of the writes since the last sync every prefix, every one missing, every
// lone one, and tears of the last at 512 bytes. op is how many operations had been handed to the disk.
func (r *boltRecorder) states(each func(op int, img []byte)) {
	synced := append([]byte(nil), r.image...)
	var group []boltOp
	start := 0
	// build takes the writes of the group that keep wants, the torn one up to tear bytes.
	build := func(keep func(i int) bool, torn int, tear int) []byte {
		img := append([]byte(nil), synced...)
		for i, op := range group {
			if !keep(i) {
				continue
			}
			if i == torn && op.off >= 0 {
				op.data = op.data[:min(tear, len(op.data))]
			}
			img = apply(img, op)
		}
		return img
	}
	rnd := newRand(1)
	flush := func() {
		all := start + len(group)
		for n := range len(group) + 1 {
			before := func(i int) bool { return i < n }
			each(start+n, build(before, -1, 0))
			if n == 0 {
				continue
			}
			for tear := 512; tear < len(group[n-1].data) && tear < 4096; tear += 512 {
				each(start+n, build(before, n-1, tear))
				each(all, build(func(int) bool { return true }, n-1, tear))
			}
			each(all, build(func(i int) bool { return i != n-1 }, -1, 0))
			each(all, build(func(i int) bool { return i == n-1 }, -1, 0))
			mask := rnd.Uint64()
			each(all, build(func(i int) bool { return mask>>(i%64)&1 == 0 }, -1, 0))
		}
	}
	for k, op := range r.ops {
		if op.off != opSync {
			group = append(group, op)
			continue
		}
		flush()
		for _, op := range group {
			synced = apply(synced, op)
		}
		group, start = nil, k+1
	}
	flush()
}

func boltStory(t *testing.T, bugs faults, store storeFaults) (*boltRecorder, *story, error) {
	t.Helper()
	s := openTestBolt(t, t.TempDir())
	s.bugs = store
	rec := recordBolt(t, s)
	y := &story{ops: rec.count}
	err := y.tell(t, smallStore{s}, bugs)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return rec, y, err
}

// runBoltStates judges every distinct image; it ends early once limit failures are found.
func runBoltStates(t *testing.T, rec *boltRecorder, y *story, limit int) (states int, failures []error) {
	t.Helper()
	dir := t.TempDir()
	seen := map[[32]byte]bool{}
	n := 0
	rec.states(func(op int, img []byte) {
		if n++; len(failures) >= limit || limit > 1 && testing.Short() && n%8 != 0 {
			return
		}
		f := y.when(op)
		key := sha256.Sum256(fmt.Append(img, f.acked, f.first, f.aside))
		if seen[key] {
			return
		}
		seen[key] = true
		states++
		path := filepath.Join(dir, "state.bolt")
		if err := os.WriteFile(path, img, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := OpenBolt(BoltOptions{Path: path, Pipeline: testPipeline, Bolt: boltkv.Options{NoSync: true}})
		if err == nil {
			err = y.judge(s, f)
			_ = s.Close()
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("after operation %d: %w", op, err))
		}
	})
	return states, failures
}

func TestCrashStatesBolt(t *testing.T) {
	rec, y, err := boltStory(t, faults{}, storeFaults{})
	if err != nil {
		t.Fatal(err)
	}
	states, failures := runBoltStates(t, rec, y, 5)
	for _, err := range failures {
		t.Error(err)
	}
	if states < 2000 && !testing.Short() {
		t.Errorf("only %d states", states)
	}
	t.Logf("%d states, %d failures", states, len(failures))
}

func TestCrashStatesBoltFindPlantedFaults(t *testing.T) {
	for name, f := range map[string]struct {
		c faults
		s storeFaults
	}{
		"RULES 12: prune after trim":         {c: faults{trimBeforePrune: true}},
		"trim below the newest checkpoint":   {c: faults{retainNewest: true}},
		"manifest before deltas":             {s: storeFaults{manifestFirst: true}},
		"RULES 9: setting aside not durable": {s: storeFaults{asideUnsynced: true}},
	} {
		t.Run(name, func(t *testing.T) {
			rec, y, err := boltStory(t, f.c, f.s)
			if err == nil {
				if _, failures := runBoltStates(t, rec, y, 1); len(failures) > 0 {
					err = failures[0]
				}
			}
			if err == nil {
				t.Fatal("not found")
			}
			t.Log("found: ", err)
		})
	}
}
