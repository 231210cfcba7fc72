package snapshot

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/store/boltkv"
)

// SetAside implements Store: the manifest moves to another bucket; frames and base stay as long as it is there.
func (s *BoltStore) SetAside(_ context.Context, id uint64, reason string) error {
	if s.bugs.asideUnsynced {
		return nil
	}
	err := s.update(nil, func(tx *boltkv.Tx) error {
		b := tx.Bucket(bucketCheckpoint)
		v := b.Get(be(id))
		if v == nil {
			return nil
		}
		if err := tx.Bucket(bucketAside).Put(be(id), append(appendString(nil, reason), v...)); err != nil {
			return err
		}
		return b.Delete(be(id))
	})
	if err != nil {
		return fmt.Errorf("set checkpoint %d aside: %w", id, err)
	}
	s.mu.Lock()
	s.stats.SetAside++
	s.mu.Unlock()
	return nil
}

// Prune implements Store. After a commit that named the same oldest it writes only when many keys are to be deleted.
func (s *BoltStore) Prune(ctx context.Context, oldest uint64) error {
	due := false
	err := s.db.View(func(tx *boltkv.Tx) error {
		k, _ := tx.Bucket(bucketCheckpoint).Cursor().First()
		due = k != nil && beUint(k) < oldest
		return nil
	})
	for err == nil && due {
		if err = ctx.Err(); err != nil {
			break
		}
		err = s.update(nil, func(tx *boltkv.Tx) error {
			if _, err := s.pruneTx(tx, oldest); err != nil {
				return err
			}
			due, err = s.cleanTx(tx, boltCleanKeys)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("prune checkpoints below %d: %w", oldest, err)
	}
	return nil
}

// pruneTx deletes the manifests below oldest.
func (s *BoltStore) pruneTx(tx *boltkv.Tx, oldest uint64) (n int, err error) {
	b := tx.Bucket(bucketCheckpoint)
	c := b.Cursor()
	for k, _ := c.First(); k != nil && beUint(k) < oldest; k, _ = c.First() {
		if err := b.Delete(k); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// cleanTx deletes up to limit keys of chunks and bases that nothing names, and tells whether more are left.
func (s *BoltStore) cleanTx(tx *boltkv.Tx, limit int) (more bool, err error) {
	chunks, bases, err := s.referenced(tx)
	if err != nil {
		return false, err
	}
	for _, part := range []struct {
		bucket []byte
		keep   map[uint64]bool
	}{{bucketChunk, chunks}, {bucketBase, bases}} {
		b := tx.Bucket(part.bucket)
		c := b.Cursor()
		for k, _ := c.First(); k != nil; {
			if len(k) != 16 {
				return false, fmt.Errorf("key of %d bytes in bucket %s: %w", len(k), part.bucket, ErrCorrupt)
			}
			id := binary.BigEndian.Uint64(k)
			if part.keep[id] {
				k, _ = c.Seek(be(id + 1))
				continue
			}
			if limit--; limit < 0 {
				return true, nil
			}
			key := bytes.Clone(k)
			if err := b.Delete(key); err != nil {
				return false, err
			}
			k, _ = c.Seek(key)
		}
	}
	return false, nil
}

// referenced tells which checkpoints' chunks and which bases are named by anything.
func (s *BoltStore) referenced(tx *boltkv.Tx) (chunks, bases map[uint64]bool, err error) {
	s.mu.Lock()
	chunks, bases = map[uint64]bool{s.writing: true}, map[uint64]bool{s.fresh.Serial: true}
	pinned := s.pinned
	for n := s.pinSerial; pinned != nil && n <= s.serial+1; n++ {
		bases[n] = true
	}
	s.mu.Unlock()
	name := func(m *Manifest) {
		bases[m.Base.Serial] = true
		for _, f := range m.Frames {
			chunks[f.Checkpoint] = true
		}
	}
	if pinned != nil {
		name(pinned)
	}
	all := func(v []byte) {
		m, err := DecodeManifest(v)
		if err != nil {
			return // unreadable: what it named cannot be known; its own checkpoint's chunks are kept below
		}
		name(m)
	}
	_ = tx.Bucket(bucketCheckpoint).ForEach(func(k, v []byte) error {
		chunks[beUint(k)] = true
		all(v)
		return nil
	})
	_ = tx.Bucket(bucketAside).ForEach(func(k, v []byte) error {
		chunks[beUint(k)] = true
		c := cursor{b: v}
		c.bytes()
		all(c.b)
		return nil
	})
	return chunks, bases, nil
}
