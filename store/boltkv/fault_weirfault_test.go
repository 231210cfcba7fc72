//go:build weirfault

package boltkv

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

// TestPowerCutsSeeBolt: a transaction that returned survives a power cut, the pages of one that was killed in between do not.
func TestPowerCutsSeeBolt(t *testing.T) {
	records, path := t.TempDir(), filepath.Join(t.TempDir(), dbName)
	recorder, err := disktest.Record(disk.OS, records, 0)
	if err != nil {
		t.Fatal(err)
	}
	plain := disk.OS
	disk.OS = recorder
	defer func() { disk.OS = plain }()
	d := open(t, path)
	put := func(key string) error {
		return d.Update(func(tx *Tx) error {
			b, err := tx.CreateBucketIfNotExists([]byte("b"))
			if err != nil {
				return err
			}
			return b.Put([]byte(key), bytes.Repeat([]byte(key), 1000))
		})
	}
	if err := put("kept"); err != nil {
		t.Fatal(err)
	}
	if n, err := disktest.Unsynced(records, filepath.Dir(path)); n != 0 || err != nil {
		t.Fatalf("%d bytes unsynced behind a transaction: %v", n, err)
	}
	d.watch.file = nil // killed before the last sync
	if err := put("lost"); err != nil {
		t.Fatal(err)
	}
	if n, err := disktest.Unsynced(records, filepath.Dir(path)); n == 0 || err != nil {
		t.Fatalf("nothing was recorded: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if taken, err := disktest.Outage(records, nil); err != nil || taken.Writes == 0 {
		t.Fatal(taken, err)
	}
	d = open(t, path)
	_ = d.View(func(tx *Tx) error {
		b := tx.Bucket([]byte("b"))
		if b.Get([]byte("kept")) == nil || b.Get([]byte("lost")) != nil {
			t.Error("the outage took the wrong transaction")
		}
		return nil
	})
	if err := d.Check(); err != nil {
		t.Error(err)
	}
}
