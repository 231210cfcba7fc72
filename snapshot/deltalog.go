package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/log"
)

// LogOptions of OpenLog.
type LogOptions struct {
	FS       disk.FS
	Dir      string // of this pipeline's checkpoints; made when missing
	Pipeline UUID
	// Log overrides DefaultLogConfig; nil: that.
	Log *log.Config
	// Catalog is the path of the bbolt catalog; "": none. It lies on the real file system whatever FS is.
	Catalog string
	// ReadOnlyCatalog leaves the catalog as it is: for a look that changes nothing.
	ReadOnlyCatalog bool
	// Codec packs deltas and bases; nil: one of the store's own.
	Codec  *log.Codec
	Logger *slog.Logger
	// Waiting is called with each try of a write that waits until the disk takes it. It must not block. Optional.
	Waiting func()
}

// DefaultLogConfig is the log of a LogStore: only a Sync commits, so that a small checkpoint is one frame, and what is held in
// memory stays small.
func DefaultLogConfig() log.Config {
	c := log.Default()
	c.Linger = 10 * time.Second
	c.MaxUnsynced = 1 << 20
	c.TailBytes = 64 << 10
	c.SpareSegments = 2
	c.SegmentBytesMin = 1 << 20       // most states are small; smaller segments would be made too often while a log grows
	c.Compress, c.FastBytes = true, 0 // deltas are few: flash counts, not CPU
	return c
}

// OpenLog opens or makes a store: the log is recovered, manifests are read, left-overs of an interrupted merge are removed.
func OpenLog(ctx context.Context, o LogOptions) (*LogStore, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Codec == nil {
		o.Codec = log.NewCodec() // its log and its bases share it
	}
	cfg := DefaultLogConfig()
	if o.Log != nil {
		cfg = *o.Log
	}
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, fmt.Errorf("open checkpoint store: %w", err)
	}
	l, _, err := log.Open(log.Options{FS: o.FS, Dir: filepath.Join(o.Dir, "log"), Config: cfg, Codec: o.Codec, Logger: o.Logger, Waiting: o.Waiting})
	if err != nil {
		return nil, fmt.Errorf("open checkpoint store: %w", err)
	}
	s, err := newLogStore(ctx, o, &storeLog{Log: l}, min(chunkBytes, int(cfg.SegmentBytes/4)))
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

// newLogStore makes the store over a recovered log.
func newLogStore(ctx context.Context, o LogOptions, l recordLog, chunk int) (*LogStore, error) {
	s := &LogStore{log: l, fs: o.FS, dir: o.Dir, uuid: o.Pipeline, logger: o.Logger, chunk: chunk, bugs: plantedStoreFaults()}
	s.pack = newPacker(o.Codec)
	if err := s.recover(ctx); err != nil {
		return nil, fmt.Errorf("open checkpoint store: %w", err)
	}
	if err := s.tidy(); err != nil {
		return nil, fmt.Errorf("open checkpoint store: %w", err)
	}
	if o.Catalog == "" {
		return s, nil
	}
	if err := s.openCatalog(&o); err != nil {
		return nil, err
	}
	return s, nil
}

// compareCatalog makes use of the second witness: it lags behind the log, so when it knows more, the log has lost it.
func (s *LogStore) compareCatalog() {
	last, newest := s.catalog.last()
	known := s.oldest
	for id := range s.live {
		known = max(known, id)
	}
	for id := range s.aside {
		known = max(known, id)
	}
	if newest > known {
		s.damage = append(s.damage, fmt.Sprintf("the catalog knows checkpoint %d, the newest in the log is %d", newest, known))
	}
	s.last = max(s.last, last)
	s.noted = last > 0
}

// tidy removes temporary files and learns the highest base number. Bases that nothing names are removed by the next Prune.
func (s *LogStore) tidy() error {
	names, err := s.fs.List(s.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if n, ok := parseBaseName(name); ok {
			s.serial = max(s.serial, n)
		}
		base, ok := strings.CutSuffix(name, tmpSuffix)
		if _, ours := parseBaseName(base); ok && ours {
			if err := s.fs.Remove(filepath.Join(s.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// storeLog is a log.Log as LogStore sees it. It keeps the blocks read last: the chunks of one frame are read one after the
// other, and a merge reads many frames side by side.
type storeLog struct {
	*log.Log
	mu     sync.Mutex
	blocks []*log.Block // newest first
}

// blocksKept times 256 KiB, the log's largest frame, is what they may hold in memory.
const blocksKept = 8

func (l *storeLog) bytes() uint64 { return uint64(l.Stats().DiskBytes) }

func (l *storeLog) Sync(ctx context.Context) error {
	err := l.Log.Sync(ctx)
	if errors.Is(err, log.ErrFailed) || errors.Is(err, log.ErrClosed) {
		return fmt.Errorf("%w: %w", ErrStoreFailed, err)
	}
	return err
}

func (l *storeLog) Append(parts ...[]byte) (uint64, error) { return l.named(l.Log.Append(parts...)) }

func (l *storeLog) AppendReserved(parts ...[]byte) (uint64, error) {
	return l.named(l.Log.AppendReserved(parts...))
}

// named gives the log's errors their name in this package.
func (*storeLog) named(pos uint64, err error) (uint64, error) {
	if errors.Is(err, log.ErrFailed) || errors.Is(err, log.ErrClosed) {
		err = fmt.Errorf("%w: %w", ErrStoreFailed, err)
	}
	return pos, err
}

func (l *storeLog) scan(ctx context.Context, from uint64, f func(pos uint64, rec []byte) (bool, error)) error {
	for last := l.Durable(); from <= last; {
		b, err := l.block(ctx, from)
		if err != nil {
			return err
		}
		for pos, rec := range b.Records() {
			if pos < from {
				continue
			}
			more, err := f(pos, rec)
			if err != nil || !more {
				return err
			}
		}
		from = b.Last + 1
	}
	return nil
}

// block gives the durable block that holds a position, from memory or flash.
func (l *storeLog) block(ctx context.Context, pos uint64) (*log.Block, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, b := range l.blocks {
		if b.First <= pos && pos <= b.Last {
			copy(l.blocks[1:i+1], l.blocks[:i])
			l.blocks[0] = b
			return b, nil
		}
	}
	r, err := l.Reader(pos)
	if err != nil {
		return nil, damageOf(err)
	}
	defer r.Close()
	b, err := r.Next(ctx)
	if err != nil {
		return nil, damageOf(err)
	}
	if b.Lost {
		return nil, &lostRange{pos, b.Last}
	}
	if len(l.blocks) < blocksKept {
		l.blocks = append(l.blocks, nil)
	}
	copy(l.blocks[1:], l.blocks)
	l.blocks[0] = b
	return b, nil
}

// lostRange is a run of positions without readable records.
type lostRange struct{ first, last uint64 }

func (l *lostRange) Error() string {
	return fmt.Sprintf("records %d to %d of the checkpoint log are lost", l.first, l.last)
}

func (l *lostRange) Unwrap() error { return ErrMissing }

// damageOf gives the log's errors their name in this package.
func damageOf(err error) error {
	switch {
	case errors.Is(err, log.ErrTrimmed):
		return fmt.Errorf("%w: %w", ErrMissing, err)
	case errors.Is(err, log.ErrChecksum), errors.Is(err, log.ErrMagic), errors.Is(err, log.ErrCorrupt):
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return err
}
