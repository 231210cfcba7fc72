//go:build !nopebble

package pebblekv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

func fillDB(t *testing.T, d *DB, n int) {
	t.Helper()
	b := d.Batch()
	for i := range n {
		if err := b.Set(fmt.Appendf(nil, "key%06d", i), make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(b.Apply(), b.Close(), d.pebble.Flush()); err != nil {
		t.Fatal(err)
	}
}

// TestCacheKeepsTablesOnly: a directory holds tables alone, nothing of an earlier process is taken over, and Close leaves nothing.
func TestCacheKeepsTablesOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "000004.sst"), []byte("of a process that was killed"), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := Open(Options{Dir: dir, MemoryBytes: 4 << 20})
	if err != nil {
		t.Fatal(err)
	}
	fillDB(t, d, 10_000)
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		t.Fatal(entries, err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".sst") {
			t.Errorf("%s lies on flash", e.Name())
		}
	}
	if m := d.Metrics(); m.Disk == 0 || m.Written == 0 || m.Memory == 0 {
		t.Errorf("metrics are %+v", m)
	}
	d.Snapshot() // as a checkpoint under way leaves it when its pipeline fails
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
}

// TestDamagedTableIsNoAnswer: what reads a damaged block fails, the directory is set aside, and the next start is an empty one.
func TestDamagedTableIsNoAnswer(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	o := Options{Dir: dir, MemoryBytes: 4 << 20}
	d, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	fillDB(t, d, 10_000)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, name := range tables {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(b) / 2 { // the data; index and footer stand behind
			b[i] ^= 0x10
		}
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err = f.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	if _, found, err := d.Get(nil, []byte("key000001")); !errors.Is(err, ErrDamaged) {
		t.Errorf("a damaged block reads as %v, %v", found, err)
	}
	it, err := d.Iter([]byte("a"), []byte("z"))
	if err != nil {
		t.Fatal(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
	}
	if err := it.Close(); !errors.Is(err, ErrDamaged) {
		t.Errorf("a walk over damaged blocks ends with %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if kept, _ := filepath.Glob(filepath.Join(dir+".bad", "*.sst")); len(kept) != len(tables) {
		t.Errorf("set aside are %v", kept)
	}
	if d, err = Open(o); err != nil {
		t.Fatal(err)
	}
	if _, found, err := d.Get(nil, []byte("key000001")); found || err != nil {
		t.Errorf("the next start has %v, %v", found, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestFormatIsPinned: a new release of Pebble does not change what lies on flash.
func TestFormatIsPinned(t *testing.T) {
	d, err := OpenMem(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if v := d.pebble.FormatMajorVersion(); v != pebble.FormatValueSeparation {
		t.Errorf("the format is %v", v)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
