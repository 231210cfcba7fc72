package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"

	"github.com/weirstream/weir/store/boltkv"
)

// Rebase implements Store: the merged blocks go in, a bounded transaction at a time; the head comes with the last.
func (s *BoltStore) Rebase(ctx context.Context, m *Manifest) (BaseRef, error) {
	s.merging.Lock()
	defer s.merging.Unlock()
	s.mu.Lock()
	s.pinned, s.pinSerial = m, s.serial+1
	s.mu.Unlock()
	var last *boltBaseWriter
	_, err := mergeAll(ctx, s, m, func() (*merged, error) {
		s.mu.Lock()
		s.serial++
		last = &boltBaseWriter{s: s, ref: BaseRef{Checkpoint: m.ID, Serial: s.serial}, sum: sha256.New()}
		s.mu.Unlock()
		return last.merged(), nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned = nil
	if err != nil {
		return BaseRef{}, fmt.Errorf("merge base of checkpoint %d: %w", m.ID, err)
	}
	s.fresh = last.ref
	s.stats.Rebases++
	s.stats.BytesWritten += last.ref.Bytes
	return last.ref, nil
}

// Import implements Store: as Rebase, but the entries come from the caller.
func (s *BoltStore) Import(ctx context.Context, m *Manifest, fill func(add AddEntry) error) (BaseRef, error) {
	s.merging.Lock()
	defer s.merging.Unlock()
	s.mu.Lock()
	s.serial++
	s.pinned, s.pinSerial = m, s.serial
	w := &boltBaseWriter{s: s, ref: BaseRef{Checkpoint: m.ID, Serial: s.serial}, sum: sha256.New()}
	s.mu.Unlock()
	err := importInto(ctx, w.merged(), fill)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned = nil
	if err != nil {
		return BaseRef{}, fmt.Errorf("import state of checkpoint %d: %w", m.ID, err)
	}
	s.fresh = w.ref
	s.stats.BytesWritten += w.ref.Bytes
	return w.ref, nil
}

// boltBaseWriter writes the blocks of one merge pass. What it leaves when it fails nothing names, so a later commit deletes it.
type boltBaseWriter struct {
	s       *BoltStore
	ref     BaseRef
	sum     hash.Hash
	block   body
	number  uint64
	pending []pendingChunk
	bytes   int
}

func (w *boltBaseWriter) merged() *merged {
	r := &boltBase{s: w.s, serial: w.ref.Serial}
	return &merged{
		add: w.add,
		end: func() error {
			err := w.end()
			r.count = int(w.number)
			return err
		},
		drop: func() {},
		run:  r,
	}
}

func (w *boltBaseWriter) add(e *entry) error {
	if w.block.entries > 0 && len(w.block.buf)+len(e.key)+len(e.sub)+len(e.val) > baseBlockBytes {
		if err := w.closeBlock(); err != nil {
			return err
		}
	}
	w.block.add(e)
	w.ref.Entries++
	return nil
}

func (w *boltBaseWriter) closeBlock() error {
	if w.block.entries == 0 {
		return nil
	}
	w.number++
	packed := w.s.pack.pack(nil, w.block.buf)
	w.sum.Write(packed)
	w.ref.Bytes += uint64(len(packed))
	w.ref.Unpacked += uint64(len(w.block.buf))
	w.block.reset()
	w.pending = append(w.pending, pendingChunk{w.number, packed})
	if w.bytes += len(packed); w.bytes < boltTxBytes {
		return nil
	}
	return w.s.update(nil, w.flush)
}

func (w *boltBaseWriter) flush(tx *boltkv.Tx) error {
	b := tx.Bucket(bucketBase)
	for _, c := range w.pending {
		if err := b.Put(chunkKey(w.ref.Serial, c.number), c.packed); err != nil {
			return err
		}
	}
	w.pending, w.bytes = w.pending[:0], 0
	return nil
}

// end writes what is left and the head.
func (w *boltBaseWriter) end() error {
	if err := w.closeBlock(); err != nil {
		return err
	}
	w.sum.Sum(w.ref.SHA256[:0])
	return w.s.update(nil, func(tx *boltkv.Tx) error {
		if err := w.flush(tx); err != nil {
			return err
		}
		h := []byte{kindBase, recordVersion}
		h = binary.LittleEndian.AppendUint64(h, w.ref.Checkpoint)
		h = binary.LittleEndian.AppendUint64(h, w.number)
		return tx.Bucket(bucketBase).Put(chunkKey(w.ref.Serial, 0), appendCRC(h, 0))
	})
}
