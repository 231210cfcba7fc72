package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk/disktest"
)

// TestFormatsOfANewerBuild: each says which format it found and which one it reads, and none reads as damage. An older number than the first is damage.
func TestFormatsOfANewerBuild(t *testing.T) {
	manifest := func(version byte) error {
		b := AppendManifest(nil, testManifest())
		b[4] = version
		_, err := DecodeManifest(appendCRC(b[:len(b)-4], 0))
		return err
	}
	record := func(version byte) error {
		_, err := decodeRecord(appendCRC([]byte{kindAside, version, 1, 2, 3}, 0), kindAside)
		return err
	}
	base := func(version byte) error {
		h := make([]byte, baseHeader-4)
		copy(h, baseMagic)
		h[4] = version
		b := append(appendCRC(h, 0), make([]byte, baseTrailer)...)
		copy(b[len(b)-4:], baseEndMagic)
		_, err := openBase(bytes.NewReader(b), int64(len(b)), nil)
		return err
	}
	bolt := func(version byte) error {
		dir := t.TempDir()
		s := openTestBolt(t, dir)
		threeCheckpoints(t, s)
		if err := s.db.Update(func(tx *boltTx) error { return tx.Bucket(bucketMeta).Put(keyFormat, be(uint64(version))) }); err != nil {
			t.Fatal(err)
		}
		path := s.o.Path
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(path)
		_, err := OpenBolt(BoltOptions{Path: path, Pipeline: testPipeline})
		after, _ := os.ReadFile(path)
		if names, _ := filepath.Glob(path + "*"); len(names) != 1 || !bytes.Equal(before, after) {
			t.Errorf("the store was changed: %v", names)
		}
		return err
	}
	for what, try := range map[string]func(version byte) error{
		"checkpoint manifest": manifest, "checkpoint record": record, "base of a checkpoint": base, "checkpoint store bbolt": bolt,
	} {
		err := try(2)
		var newer *pipeline.NewerError
		if !errors.As(err, &newer) || !errors.Is(err, ErrVersion) || isDamage(err) || !strings.Contains(err.Error(), "written by a newer weir (format 2, this build reads up to 1): "+what) {
			t.Errorf("%s: %v", what, err)
		}
		if what == "checkpoint store bbolt" {
			continue // 0 is a store that is being made
		}
		if err := try(0); errors.As(err, &newer) || !isDamage(err) {
			t.Errorf("%s of version 0: %v", what, err)
		}
	}
}

// TestAStoreWithANewerRecordIsNotOpened: a record that is not known may prune or set aside a checkpoint; without it an older one would be restored.
func TestAStoreWithANewerRecordIsNotOpened(t *testing.T) {
	m := disktest.NewMem()
	s, err := openTestLog(m, "/s", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	threeCheckpoints(t, s)
	if _, err := s.log.Append(appendCRC(append([]byte{kindAside, recordVersion + 1}, binary.AppendUvarint(be(3), 0)...), 0)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.log.Sync(context.Background()), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := openTestLog(m, "/s", 1<<20); !errors.Is(err, ErrVersion) {
		t.Errorf("%v", err)
	}
}
