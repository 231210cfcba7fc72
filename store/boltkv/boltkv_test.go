package boltkv

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func open(t *testing.T, path string) *DB {
	t.Helper()
	d, err := Open(path, Options{LockTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// fill makes nested buckets, overflow pages, branch pages and free pages.
func fill(t *testing.T, d *DB, n int) {
	t.Helper()
	for round := range 3 {
		err := d.Update(func(tx *Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("a"))
			if err != nil {
				return err
			}
			in, err := b.CreateBucketIfNotExists([]byte("inner"))
			if err != nil {
				return err
			}
			for i := range n {
				key := fmt.Appendf(nil, "key-%05d", i)
				if err := b.Put(key, bytes.Repeat([]byte{byte(i)}, 10+i%300)); err != nil {
					return err
				}
				if i%7 == round {
					if err := b.Delete(key); err != nil {
						return err
					}
				}
			}
			return in.Put([]byte("big"), bytes.Repeat([]byte("x"), 20000))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestReopenKeepsContent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.bolt")
	d := open(t, path)
	fill(t, d, 2000)
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, path)
	_ = d.View(func(tx *Tx) error {
		if got := tx.Bucket([]byte("a")).Get([]byte("key-00005")); len(got) != 15 {
			t.Errorf("got %d bytes", len(got))
		}
		return nil
	})
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestLockedIsNotCorrupt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.bolt")
	open(t, path)
	_, err := Open(path, Options{LockTimeout: 20 * time.Millisecond})
	if !errors.Is(err, ErrLocked) || errors.Is(err, ErrCorrupt) {
		t.Fatalf("got %v", err)
	}
}

// TestDamageIsReportedNotCrashed flips bits and cuts: Open either refuses with ErrCorrupt or gives a database whose pages can all be
// walked. Without the walk bbolt panics in a goroutine or dies of SIGBUS here.
func TestDamageIsReportedNotCrashed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.bolt")
	d := open(t, path)
	fill(t, d, 300)
	_ = d.Close()
	img, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewSource(1))
	refused := 0
	for i := range 600 {
		b := append([]byte(nil), img...)
		switch {
		case i%3 == 0:
			b = b[:rnd.Intn(len(b))]
		case i%3 == 1: // page headers and elements
			page := rnd.Intn(len(b)/4096) * 4096
			b[page+rnd.Intn(64)] ^= 1 << rnd.Intn(8)
		default:
			page := rnd.Intn(len(b)/4096) * 4096
			clear(b[page : page+4096])
		}
		p := filepath.Join(dir, fmt.Sprint("damaged", i))
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := Open(p, Options{})
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("damage %d: %v", i, err)
			}
			refused++
			_ = os.Remove(p)
			continue
		}
		err = d.Update(func(tx *Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("new"))
			if err != nil {
				return err
			}
			return b.Put([]byte("k"), []byte("v"))
		})
		if err != nil {
			t.Errorf("damage %d: %v", i, err)
		}
		_ = d.Close()
		_ = os.Remove(p)
	}
	if refused < 100 {
		t.Errorf("only %d refused", refused)
	}
	t.Logf("%d of 600 refused", refused)
}

func TestSetAsideTakesTheFirstFreeName(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.bolt")
	for n := 1; n <= 3; n++ {
		if err := os.WriteFile(path, []byte("junk"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path, Options{}); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("got %v", err)
		}
		to, err := SetAside(path)
		if err != nil || to != fmt.Sprintf("%s.bad-%d", path, n) {
			t.Fatalf("got %s, %v", to, err)
		}
	}
}

// FuzzWalk: no input makes the walk panic or read out of bounds.
func FuzzWalk(f *testing.F) {
	path := filepath.Join(f.TempDir(), "x.bolt")
	d, err := Open(path, Options{})
	if err != nil {
		f.Fatal(err)
	}
	_ = d.Update(func(tx *Tx) error {
		b, _ := tx.CreateBucket([]byte("a"))
		return b.Put([]byte("k"), []byte("v"))
	})
	_ = d.Close()
	img, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint16(0), uint32(0), []byte{1})
	f.Fuzz(func(t *testing.T, page uint16, off uint32, patch []byte) {
		b := append([]byte(nil), img...)
		at := int(page)%(len(b)/4096)*4096 + int(off)%4096
		copy(b[at:], patch)
		_ = walk(bytes.NewReader(b), int64(len(b)))
	})
}
