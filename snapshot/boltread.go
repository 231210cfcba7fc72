package snapshot

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/boltkv"
)

// Verify implements Store.
func (s *BoltStore) Verify(ctx context.Context, m *Manifest) error {
	if m.Base.Serial != 0 {
		if err := s.verifyBase(ctx, m.Base); err != nil {
			return err
		}
	}
	for _, f := range m.Frames {
		if err := verifyFrame(ctx, f, &boltRun{s: s, ref: f}); err != nil {
			return err
		}
	}
	return nil
}

// recordRun is a run whose chunks are records, for verification.
type recordRun interface {
	record(ctx context.Context, i int) ([]byte, error)
	close()
}

// verifyFrame reads every chunk of a frame once.
func verifyFrame(ctx context.Context, f FrameRef, r recordRun) error {
	defer r.close()
	var sum frameSum
	for i := range f.Count {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := r.record(ctx, int(i))
		if err != nil {
			return fmt.Errorf("frame of checkpoint %d: %w", f.Checkpoint, err)
		}
		sum.add(b, 0)
	}
	return sum.check(f)
}

// chunkBody checks that a record is chunk i of frame f.
func chunkBody(f FrameRef, i int, record []byte) ([]byte, error) {
	id, body, err := decodeChunk(record)
	if err != nil {
		return nil, err
	}
	if id.checkpoint != f.Checkpoint || int(id.index) != i {
		return nil, fmt.Errorf("chunk %d of checkpoint %d in the place of chunk %d of %d: %w", id.index, id.checkpoint, i, f.Checkpoint, ErrCorrupt)
	}
	return body, nil
}

// boltRun reads one frame; each chunk in a transaction of its own, so that no page stays pinned.
type boltRun struct {
	s   *BoltStore
	ref FrameRef
	raw []byte
}

func (r *boltRun) chunks() int { return int(r.ref.Count) }
func (r *boltRun) close()      {}

func (r *boltRun) record(_ context.Context, i int) ([]byte, error) {
	err := r.s.db.View(func(tx *boltkv.Tx) error {
		v := tx.Bucket(bucketChunk).Get(chunkKey(r.ref.Checkpoint, r.ref.First+uint64(i)))
		if v == nil {
			return fmt.Errorf("chunk %d: %w", i, ErrMissing)
		}
		var err error
		r.raw, err = r.s.pack.unpack(r.raw, v)
		return err
	})
	return r.raw, err
}

func (r *boltRun) body(ctx context.Context, i int) ([]byte, error) {
	b, err := r.record(ctx, i)
	if err != nil {
		return nil, err
	}
	return chunkBody(r.ref, i, b)
}

// boltBase reads a base: packed bodies under (serial, 1…), a head under (serial, 0).
type boltBase struct {
	s      *BoltStore
	serial uint64
	count  int
	raw    []byte
}

func (r *boltBase) chunks() int { return r.count }
func (r *boltBase) close()      {}

func (r *boltBase) body(_ context.Context, i int) ([]byte, error) {
	err := r.s.db.View(func(tx *boltkv.Tx) error {
		v := tx.Bucket(bucketBase).Get(chunkKey(r.serial, uint64(i)+1))
		if v == nil {
			return fmt.Errorf("base %d: block %d: %w", r.serial, i, ErrMissing)
		}
		var err error
		if r.raw, err = r.s.pack.unpack(r.raw, v); err != nil {
			return fmt.Errorf("base %d: block %d: %w", r.serial, i, err)
		}
		return nil
	})
	return r.raw, err
}

// baseHead reads how many blocks a base has and which checkpoint's state it is.
func (s *BoltStore) baseHead(serial uint64) (checkpoint uint64, blocks int, err error) {
	err = s.db.View(func(tx *boltkv.Tx) error {
		v := tx.Bucket(bucketBase).Get(chunkKey(serial, 0))
		if v == nil {
			return fmt.Errorf("base %d: %w", serial, ErrMissing)
		}
		rest, err := decodeRecord(v, kindBase)
		if err != nil {
			return fmt.Errorf("base %d: %w", serial, err)
		}
		c := cursor{b: rest}
		var n uint64
		checkpoint, n = c.u64(), c.u64()
		if c.bad || len(c.b) != 0 || n > math.MaxInt32 {
			return fmt.Errorf("base %d: head: %w", serial, ErrCorrupt)
		}
		blocks = int(n)
		return nil
	})
	return checkpoint, blocks, err
}

const kindBase = 'B'

func (s *BoltStore) verifyBase(ctx context.Context, ref BaseRef) error {
	checkpoint, blocks, err := s.baseHead(ref.Serial)
	if err != nil {
		return err
	}
	if checkpoint != ref.Checkpoint {
		return fmt.Errorf("base %d is of checkpoint %d, not %d: %w", ref.Serial, checkpoint, ref.Checkpoint, ErrCorrupt)
	}
	sum := sha256.New()
	for i := range blocks {
		if err := ctx.Err(); err != nil {
			return err
		}
		err := s.db.View(func(tx *boltkv.Tx) error {
			v := tx.Bucket(bucketBase).Get(chunkKey(ref.Serial, uint64(i)+1))
			if v == nil {
				return fmt.Errorf("base %d: block %d: %w", ref.Serial, i, ErrMissing)
			}
			sum.Write(v)
			return nil
		})
		if err != nil {
			return err
		}
	}
	if [32]byte(sum.Sum(nil)) != ref.SHA256 {
		return fmt.Errorf("base %d: sha256: %w", ref.Serial, ErrChecksum)
	}
	return nil
}

// open implements layered.
func (s *BoltStore) open(m *Manifest) ([]layer, error) {
	var out []layer
	if m.Base.Serial != 0 {
		_, blocks, err := s.baseHead(m.Base.Serial)
		if err != nil {
			return nil, err
		}
		out = append(out, layer{&boltBase{s: s, serial: m.Base.Serial, count: blocks}, m.Base.Checkpoint})
	}
	for _, f := range m.Frames {
		out = append(out, layer{&boltRun{s: s, ref: f}, f.Checkpoint})
	}
	return out, nil
}

// Load implements Store.
func (s *BoltStore) Load(m *Manifest) (pipeline.StateSource, error) { return &source{s, m}, nil }
