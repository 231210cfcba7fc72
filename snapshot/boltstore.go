package snapshot

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/boltkv"
	"github.com/weirstream/weir/store/log"
)

var (
	bucketMeta       = []byte("meta")       // "format", "last"
	bucketCheckpoint = []byte("checkpoint") // id -> manifest
	bucketAside      = []byte("aside")      // id -> reason, manifest
	bucketChunk      = []byte("chunk")      // id, number -> packed chunk record
	bucketBase       = []byte("base")       // serial, number -> packed body

	keyFormat = []byte("format")
	keyLast   = []byte("last")
)

const (
	boltFormat = 1
	// boltTxBytes bounds what one transaction holds: bbolt keeps its dirty pages on the heap.
	boltTxBytes = 512 << 10
	// boltCleanKeys is how many keys of dropped checkpoints one commit deletes beside its own work.
	boltCleanKeys = 256
)

// BoltOptions of OpenBolt.
type BoltOptions struct {
	Path     string // of the one file; its directory exists
	Pipeline UUID
	Bolt     boltkv.Options
	ReadOnly bool       // for a look that changes nothing; a damaged file is an error then, and so is none
	Codec    *log.Codec // packs what is kept; nil: one of the store's own
	Logger   *slog.Logger
}

// BoltStore keeps all in one bbolt file: for small state. Its file opens with bbolt's tools. The commit of a checkpoint is a
// transaction. mu guards the fields below it; the file has its own locking.
type BoltStore struct {
	db   *boltkv.DB
	o    BoltOptions
	pack *packer

	merging sync.Mutex // held by Rebase; Close waits for it

	mu        sync.Mutex
	last      uint64
	serial    uint64    // highest base number used
	pinned    *Manifest // being merged
	pinSerial uint64    // bases from here on belong to the merge
	fresh     BaseRef   // merged, perhaps not named by a manifest yet
	writing   uint64    // checkpoint under way
	failed    error
	damage    []string
	stats     StoreStats
	bugs      storeFaults
}

// storeFaults are planted by tests, or by the environment in a build with -tags weirfault; all false otherwise.
type storeFaults struct {
	manifestFirst bool // the manifest is durable before the deltas
	asideUnsynced bool // RULES 9: setting aside is not durable
	askedEarly    bool // which bases are needed is asked before the directory is listed
	baseUnsynced  bool // the base is named before it is durable
	noReserve     bool // a full log takes no small record either
}

// OpenBolt opens or makes the file. A damaged one is set aside, durably, and the store opens empty with the damage in its
// Listing, so that Restore refuses; it is never opened over. Wraps boltkv.ErrLocked when another process holds it.
func OpenBolt(o BoltOptions) (*BoltStore, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &BoltStore{o: o, pack: newPacker(o.Codec), bugs: plantedStoreFaults()}
	var err error
	o.Bolt.ReadOnly = o.ReadOnly
	s.db, err = boltkv.Open(o.Path, o.Bolt)
	if errors.Is(err, boltkv.ErrCorrupt) && !o.ReadOnly {
		to, aerr := boltkv.SetAside(o.Path)
		if aerr != nil {
			return nil, errors.Join(err, aerr)
		}
		o.Logger.Error("checkpoint file set aside", "to", to, "error", err)
		s.db, err = boltkv.Open(o.Path, o.Bolt)
	}
	if err != nil {
		return nil, fmt.Errorf("open checkpoint store: %w", err)
	}
	for n := 1; ; n++ { // what was set aside stays a sign that there were checkpoints, after a restart too
		to := fmt.Sprintf("%s.bad-%d", o.Path, n)
		if _, err := os.Lstat(to); errors.Is(err, fs.ErrNotExist) {
			break
		}
		s.damage = append(s.damage, "damaged file set aside as "+to)
	}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

func (s *BoltStore) load() error {
	var format uint64
	err := s.db.View(func(tx *boltkv.Tx) error {
		m := tx.Bucket(bucketMeta)
		if m == nil {
			return nil
		}
		format, s.last = beUint(m.Get(keyFormat)), beUint(m.Get(keyLast))
		if k, _ := tx.Bucket(bucketBase).Cursor().Last(); len(k) == 16 {
			s.serial = binary.BigEndian.Uint64(k)
		}
		return nil
	})
	if err != nil || format == boltFormat {
		return err
	}
	if format != 0 {
		return fmt.Errorf("open checkpoint store %s: %w", s.o.Path, pipeline.Newer(ErrVersion, "checkpoint store bbolt", format, boltFormat))
	}
	if s.o.ReadOnly {
		return fmt.Errorf("open checkpoint store %s: it was never used: %w", s.o.Path, ErrMissing)
	}
	return s.db.Update(func(tx *boltkv.Tx) error {
		for _, b := range [][]byte{bucketMeta, bucketCheckpoint, bucketAside, bucketChunk, bucketBase} {
			if _, err := tx.CreateBucketIfNotExists(b); err != nil {
				return err
			}
		}
		return tx.Bucket(bucketMeta).Put(keyFormat, be(boltFormat))
	})
}

func be(v uint64) []byte { return binary.BigEndian.AppendUint64(nil, v) }

// beUint reads a number; anything but 8 bytes reads as 0.
func beUint(b []byte) uint64 {
	if len(b) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func chunkKey(id uint64, n uint64) []byte { return binary.BigEndian.AppendUint64(be(id), n) }

// LastID implements Store.
func (s *BoltStore) LastID() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// List implements Store.
func (s *BoltStore) List(context.Context) (Listing, error) {
	l := Listing{Damage: slices.Clone(s.damage)}
	err := s.db.View(func(tx *boltkv.Tx) error {
		_ = tx.Bucket(bucketCheckpoint).ForEach(func(k, v []byte) error {
			m, err := DecodeManifest(v)
			if err == nil && m.ID != beUint(k) {
				err = fmt.Errorf("manifest of checkpoint %d under the key of %d: %w", m.ID, beUint(k), ErrCorrupt)
			}
			if err != nil {
				newer := errors.Is(err, ErrVersion) || errors.Is(err, ErrFlags)
				l.Bad = append(l.Bad, Bad{ID: beUint(k), Reason: err.Error(), Newer: newer})
				return nil
			}
			l.Manifests = append(l.Manifests, m)
			return nil
		})
		return tx.Bucket(bucketAside).ForEach(func(k, v []byte) error {
			c := cursor{b: v}
			l.SetAside = append(l.SetAside, Bad{ID: beUint(k), Reason: c.string()})
			return nil
		})
	})
	slices.Reverse(l.Manifests)
	slices.Reverse(l.Bad)
	l.Fresh = len(l.Manifests)+len(l.Bad)+len(l.SetAside)+len(l.Damage) == 0 && s.LastID() == 0
	return l, err
}

// update runs a transaction and tells what an error means: one that may have reached the disk fails the store.
func (s *BoltStore) update(visible func(tx *boltkv.Tx) bool, f func(tx *boltkv.Tx) error) error {
	s.mu.Lock()
	failed := s.failed
	s.mu.Unlock()
	if failed != nil {
		return failed
	}
	inside := false
	err := s.db.Update(func(tx *boltkv.Tx) error {
		err := f(tx)
		inside = err != nil
		return err
	})
	if err == nil || inside {
		return err
	}
	// A failed sync proves nothing about what is on the disk, and a meta page that was written may survive. Everything else
	// (no space, mostly) ended before the meta page.
	seen := boltkv.Unsure(err)
	_ = s.db.View(func(tx *boltkv.Tx) error {
		seen = seen || visible != nil && visible(tx)
		return nil
	})
	if seen {
		err = fmt.Errorf("%w: %w", ErrStoreFailed, err)
		s.mu.Lock()
		s.failed = err
		s.mu.Unlock()
	}
	return err
}

// Begin implements Store.
func (s *BoltStore) Begin(_ context.Context, parent *Manifest, id uint64) (Writer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil {
		return nil, fmt.Errorf("begin checkpoint %d: %w", id, s.failed)
	}
	if id <= s.last {
		return nil, fmt.Errorf("begin checkpoint %d: number %d was used already", id, s.last)
	}
	s.writing, s.last = id, id
	w := &boltWriter{s: s, parent: parent, id: id}
	w.sort.sink = w
	return w, nil
}

// boltWriter collects chunks and writes them in transactions of their own once they exceed boltTxBytes; they mean nothing until
// the manifest names them.
type boltWriter struct {
	s       *BoltStore
	parent  *Manifest
	id      uint64
	task    uint32
	tasks   []string
	sort    sorter
	frames  []FrameRef
	sum     frameSum
	first   uint64 // number of the first chunk of the run under way
	number  uint64
	record  []byte
	pending []pendingChunk
	bytes   int
	ended   bool
}

type pendingChunk struct {
	number uint64
	packed []byte
}

func (w *boltWriter) Write(ctx context.Context, task string, parts []pipeline.StatePart) error {
	w.task = uint32(len(w.tasks))
	w.tasks = append(w.tasks, task)
	return w.sort.write(ctx, parts)
}

func (w *boltWriter) chunk(index uint32, b *body) error {
	w.record = appendChunk(w.record[:0], chunkID{w.id, uint32(len(w.frames)), index}, b.buf)
	w.sum.add(w.record, b.entries)
	packed := w.s.pack.pack(nil, w.record)
	w.pending = append(w.pending, pendingChunk{w.number, packed})
	w.number++
	w.bytes += len(packed)
	if w.bytes < boltTxBytes || w.s.bugs.manifestFirst {
		return nil
	}
	return w.s.update(nil, w.flush)
}

func (w *boltWriter) flush(tx *boltkv.Tx) error {
	b := tx.Bucket(bucketChunk)
	for _, c := range w.pending {
		if err := b.Put(chunkKey(w.id, c.number), c.packed); err != nil {
			return err
		}
	}
	w.pending, w.bytes = w.pending[:0], 0
	return nil
}

func (w *boltWriter) endRun() error {
	w.frames = append(w.frames, FrameRef{
		Checkpoint: w.id, Task: w.task, First: w.first, Count: w.sum.count, Entries: w.sum.entries, Bytes: w.sum.bytes, CRC: w.sum.crc,
	})
	w.sum, w.first = frameSum{}, w.number
	return nil
}

// Commit implements Writer: one transaction holds the last chunks, the manifest, and the end of what it prunes.
func (w *boltWriter) Commit(_ context.Context, m *Manifest) error {
	chain(m, w.parent, w.frames)
	if w.s.bugs.manifestFirst {
		err := w.s.update(nil, func(tx *boltkv.Tx) error { return tx.Bucket(bucketCheckpoint).Put(be(m.ID), AppendManifest(nil, m)) })
		return errors.Join(err, w.s.update(nil, w.flush))
	}
	err := w.s.update(
		func(tx *boltkv.Tx) bool { return tx.Bucket(bucketCheckpoint).Get(be(m.ID)) != nil },
		func(tx *boltkv.Tx) error {
			if err := w.flush(tx); err != nil {
				return err
			}
			if err := tx.Bucket(bucketCheckpoint).Put(be(m.ID), AppendManifest(nil, m)); err != nil {
				return err
			}
			if err := tx.Bucket(bucketMeta).Put(keyLast, be(m.ID)); err != nil {
				return err
			}
			if _, err := w.s.pruneTx(tx, m.Oldest); err != nil {
				return err
			}
			_, err := w.s.cleanTx(tx, boltCleanKeys)
			return err
		})
	if err != nil {
		return fmt.Errorf("commit checkpoint %d: %w", m.ID, err)
	}
	w.Abort()
	return nil
}

// Abort implements Writer. Chunks that were written already are deleted by a later commit.
func (w *boltWriter) Abort() {
	if w.ended {
		return
	}
	w.ended = true
	w.s.mu.Lock()
	w.s.writing = 0
	w.s.stats.BytesWritten += sumBytes(w.frames)
	w.s.mu.Unlock()
}

func sumBytes(frames []FrameRef) (n uint64) {
	for _, f := range frames {
		n += f.Bytes
	}
	return n
}

// Stats implements Store.
func (s *BoltStore) Stats() StoreStats {
	n := 0
	_ = s.db.View(func(tx *boltkv.Tx) error { // fails only when closed
		return tx.Bucket(bucketCheckpoint).ForEach(func(_, _ []byte) error { n++; return nil })
	})
	size := s.db.Size()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Checkpoints, s.stats.Bytes = n, uint64(size)
	return s.stats
}

// Close implements Store.
func (s *BoltStore) Close() error {
	s.merging.Lock()
	defer s.merging.Unlock()
	return s.db.Close()
}
