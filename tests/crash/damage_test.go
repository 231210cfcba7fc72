package crash

import (
	"bytes"
	endian "encoding/binary"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/disk"
)

// damageNewest breaks the end of a pipeline's checkpoint log, where the newest manifest lies.
func damageNewest(t *testing.T, dir string) int {
	return damageLast(t, filepath.Join(dir, "checkpoints", "log"))
}

// damageFrom leaves the segment's head and the first manifests alone: there must be something to fall back to.
const damageFrom = 1024

// damageLast flips the last byte that is not zero in the segment that was written last.
func damageLast(t *testing.T, dir string) int {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0 // not made yet
	}
	var name string
	var newest int64
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().UnixNano() > newest {
			name, newest = filepath.Join(dir, e.Name()), info.ModTime().UnixNano()
		}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return 0
	}
	last := len(b) - 1
	for last >= 0 && b[last] == 0 {
		last--
	}
	if last < damageFrom {
		return 0 // the first checkpoint may be the only one
	}
	b[last] ^= 0x5a
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return 1
}

// damageAllButOldest gives a function that breaks every checkpoint of a pipeline but the oldest that its store retains: that is what
// retaining is for, and it can be restored only when the journal still has the records behind it. What it broke, prunes included, is as if
// it had never been, and checkpoints that were let go are listed again; so it strikes again only when all that is retained is newer.
func damageAllButOldest() func(t *testing.T, dir string) int {
	var mu sync.Mutex             // the run with the fault and that without it share this
	struck := map[string]uint64{} // the newest checkpoint at the last strike, by pipeline
	return func(t *testing.T, dir string) (n int) {
		mu.Lock()
		defer mu.Unlock()
		retained := retainedIn(t, dir)
		if len(retained) < 2 {
			return 0
		}
		oldest := retained[len(retained)-1]
		if oldest <= struck[dir] {
			return 0
		}
		struck[dir] = retained[0]
		for list := retained; list[0] != oldest; n++ {
			breakLastFrame(t, filepath.Join(dir, "checkpoints", "log"))
			if list = retainedIn(t, dir); len(list) == 0 {
				t.Fatalf("the oldest of %v went with the others", retained)
			}
		}
		return n
	}
}

// retainedIn lists the checkpoints of a pipeline, newest first, from a copy of their log: opening it would change it.
func retainedIn(t *testing.T, dir string) (ids []uint64) {
	store := filepath.Join(dir, "checkpoints")
	if _, err := os.Stat(filepath.Join(store, "log")); err != nil {
		return nil // not made yet
	}
	var id snapshot.UUID
	if _, err := hex.Decode(id[:], []byte(filepath.Base(dir))); err != nil {
		t.Fatal(err)
	}
	twin := t.TempDir()
	if err := os.CopyFS(twin, os.DirFS(store)); err != nil {
		t.Fatal(err)
	}
	s, err := snapshot.OpenLog(t.Context(), snapshot.LogOptions{FS: disk.OS, Dir: twin, Pipeline: id, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := s.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Manifests {
		ids = append(ids, m.ID)
	}
	return ids
}

// breakLastFrame flips a byte in the intact frame of the highest epoch and position of a log (store/log/FORMAT.md).
func breakLastFrame(t *testing.T, dir string) {
	const headerBytes, frameAlign = 72, 8
	names, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil {
		t.Fatal(err)
	}
	var name string
	var at int64
	var epoch, first uint64
	for _, candidate := range names {
		b, err := os.ReadFile(candidate)
		if err != nil {
			t.Fatal(err)
		}
		for off := headerBytes; off+headerBytes <= len(b); off += frameAlign {
			h := b[off:]
			if !bytes.HasPrefix(h, []byte("WRL1")) || bytes.HasPrefix(h[68:], brokenMark) {
				continue
			}
			e, f := endian.LittleEndian.Uint64(h[8:]), endian.LittleEndian.Uint64(h[16:])
			if e > epoch || e == epoch && f > first {
				name, at, epoch, first = candidate, int64(off), e, f
			}
		}
	}
	if name == "" {
		t.Fatal("no frame is left to break")
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(brokenMark, at+68); err != nil { // its checksum
		t.Fatal(err)
	}
}

// brokenMark in place of a checksum.
var brokenMark = []byte{0xba, 0xdb, 0xad, 0xba}
