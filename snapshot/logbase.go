package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
)

// baseName names base file number serial; parseBaseName is its inverse.
func baseName(serial uint64) string { return fmt.Sprintf("base-%020d", serial) }

func parseBaseName(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, "base-")
	if !ok || len(digits) != 20 {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, err == nil
}

const tmpSuffix = ".tmp"

// fileWriter appends to a disk.File in pieces of one flash page and more.
type fileWriter struct {
	f   disk.File
	off int64
	buf []byte
}

const fileWriterBytes = 256 << 10

func (w *fileWriter) Write(p []byte) (int, error) {
	w.buf = append(w.buf, p...)
	if len(w.buf) < fileWriterBytes {
		return len(p), nil
	}
	return len(p), w.flush()
}

func (w *fileWriter) flush() error {
	n, err := w.f.WriteAt(w.buf, w.off)
	w.off += int64(n)
	w.buf = w.buf[:0]
	return err
}

// Rebase implements Store: merge into a temporary file, sync, rename, sync the directory.
func (s *LogStore) Rebase(ctx context.Context, m *Manifest) (BaseRef, error) {
	s.merging.Lock()
	defer s.merging.Unlock()
	s.mu.Lock()
	if s.failed != nil {
		defer s.mu.Unlock()
		return BaseRef{}, s.failed
	}
	s.pinned = m
	s.mu.Unlock()
	ref, err := s.rebase(ctx, m)
	s.mu.Lock()
	s.pinned = nil
	if err == nil {
		s.fresh = ref
		s.stats.Rebases++
		s.stats.BytesWritten += ref.Bytes
	}
	s.mu.Unlock()
	if err != nil {
		return BaseRef{}, fmt.Errorf("merge base of checkpoint %d: %w", m.ID, err)
	}
	s.note()
	return ref, nil
}

func (s *LogStore) rebase(ctx context.Context, m *Manifest) (BaseRef, error) {
	var last *fileBase
	_, err := mergeAll(ctx, s, m, func() (*merged, error) {
		s.mu.Lock()
		s.serial++
		serial := s.serial
		s.mu.Unlock()
		var err error
		last, err = s.newFileBase(m, serial)
		if err != nil {
			return nil, err
		}
		return last.merged(), nil
	})
	if err != nil {
		return BaseRef{}, err
	}
	if err := last.publish(); err != nil {
		last.drop()
		return BaseRef{}, err
	}
	return last.ref, nil
}

// Import implements Store: as Rebase, but the entries come from the caller.
func (s *LogStore) Import(ctx context.Context, m *Manifest, fill func(add AddEntry) error) (BaseRef, error) {
	s.merging.Lock()
	defer s.merging.Unlock()
	s.mu.Lock()
	s.serial++
	serial, failed := s.serial, s.failed
	s.mu.Unlock()
	if failed != nil {
		return BaseRef{}, failed
	}
	b, err := s.newFileBase(m, serial)
	if err == nil {
		if err = importInto(ctx, b.merged(), fill); err == nil {
			err = b.publish()
		}
		if err != nil {
			b.drop()
		}
	}
	if err != nil {
		return BaseRef{}, fmt.Errorf("import state of checkpoint %d: %w", m.ID, err)
	}
	s.mu.Lock()
	s.fresh = b.ref
	s.stats.BytesWritten += b.ref.Bytes
	s.mu.Unlock()
	return b.ref, nil
}

// fileBase is the output of one merge pass, under its temporary name until publish.
type fileBase struct {
	s    *LogStore
	m    *Manifest
	ref  BaseRef
	name string
	f    disk.File
	out  *fileWriter
	w    *baseWriter
	run  baseRun
}

func (s *LogStore) newFileBase(m *Manifest, serial uint64) (*fileBase, error) {
	b := &fileBase{s: s, m: m, ref: BaseRef{Checkpoint: m.ID, Serial: serial}, name: filepath.Join(s.dir, baseName(serial))}
	if err := s.fs.Remove(b.name + tmpSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var err error
	if b.f, err = s.fs.Create(b.name + tmpSuffix); err != nil {
		return nil, err
	}
	b.out = &fileWriter{f: b.f}
	if b.w, err = newBaseWriter(b.out, s.pack, m.Pipeline, m.ID, serial); err != nil {
		b.drop()
		return nil, err
	}
	return b, nil
}

func (b *fileBase) merged() *merged {
	return &merged{add: b.w.add, end: b.end, drop: b.drop, run: &b.run}
}

// end makes the file whole, not yet durable, and ready to be read by the next pass.
func (b *fileBase) end() error {
	size, sum, err := b.w.finish(b.m.Tables)
	if err == nil {
		err = b.out.flush()
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", b.name, err)
	}
	b.ref.Bytes, b.ref.SHA256, b.ref.Entries, b.ref.Unpacked = size, sum, b.w.entries, b.w.unpacked
	file, err := openBase(b.f, int64(size), b.s.pack)
	if err != nil {
		return err
	}
	b.run = baseRun{baseFile: file}
	return nil
}

func (b *fileBase) publish() error {
	var err error
	if !b.s.bugs.baseUnsynced {
		err = b.f.Sync()
	}
	if err = errors.Join(err, b.f.Close()); err != nil {
		return fmt.Errorf("sync %s: %w", b.name, err)
	}
	if err := b.s.fs.Rename(b.name+tmpSuffix, b.name); err != nil {
		return fmt.Errorf("rename %s: %w", b.name, err)
	}
	if err := b.s.fs.SyncDir(b.s.dir); err != nil {
		return fmt.Errorf("sync directory of %s: %w", b.name, err)
	}
	return nil
}

// drop removes the temporary file. What a failure leaves is removed at the next opening.
func (b *fileBase) drop() {
	_ = b.f.Close()
	_ = b.s.fs.Remove(b.name + tmpSuffix)
}

// cleanBases removes base files that nothing names, and renames those that a set-aside checkpoint names. What is needed is asked behind the
// listing: a merge that ends between the two has a file that is not listed, or is needed; asked before, its new base would be taken
// for one that nothing names.
func (s *LogStore) cleanBases() error {
	var needed map[uint64]bool
	if s.bugs.askedEarly {
		_, needed = s.free()
	}
	names, err := s.fs.List(s.dir)
	if err != nil {
		return fmt.Errorf("list %s: %w", s.dir, err)
	}
	if !s.bugs.askedEarly {
		_, needed = s.free()
	}
	for _, name := range names {
		serial, ok := parseBaseName(name)
		if !ok || needed[serial] {
			continue
		}
		s.mu.Lock()
		keep := s.keep[serial]
		s.mu.Unlock()
		path := filepath.Join(s.dir, name)
		if keep {
			err = s.fs.Rename(path, filepath.Join(s.dir, "aside-"+name))
		} else {
			err = s.fs.Remove(path)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove base %s: %w", name, err)
		}
	}
	return nil
}

// openBaseFile opens the base that a manifest names and checks that it is that one.
func (s *LogStore) openBaseFile(ref BaseRef) (disk.File, *baseFile, error) {
	name := baseName(ref.Serial)
	f, err := s.fs.Open(filepath.Join(s.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, fmt.Errorf("%s: %w", name, ErrMissing)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("open %s: %w", name, err)
	}
	size, err := f.Size()
	if err == nil && uint64(size) != ref.Bytes {
		err = fmt.Errorf("%d bytes, manifest says %d: %w", size, ref.Bytes, ErrCorrupt)
	}
	var b *baseFile
	if err == nil {
		b, err = openBase(f, size, s.pack)
	}
	if err == nil && (b.sum != ref.SHA256 || b.checkpoint != ref.Checkpoint || b.serial != ref.Serial) {
		err = fmt.Errorf("another base: %w", ErrChecksum)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, b, nil
}

// Verify implements Store.
func (s *LogStore) Verify(ctx context.Context, m *Manifest) error {
	if m.Base.Serial != 0 {
		f, b, err := s.openBaseFile(m.Base)
		if err != nil {
			return err
		}
		err = b.verify(ctx, int64(m.Base.Bytes))
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", baseName(m.Base.Serial), err)
		}
	}
	for _, f := range m.Frames {
		if err := verifyFrame(ctx, f, &logRun{s: s, ref: f}); err != nil {
			return err
		}
	}
	return nil
}

// Load implements Store.
func (s *LogStore) Load(m *Manifest) (pipeline.StateSource, error) { return &source{s, m}, nil }

// open implements layered.
func (s *LogStore) open(m *Manifest) ([]layer, error) {
	var out []layer
	if m.Base.Serial != 0 {
		f, b, err := s.openBaseFile(m.Base)
		if err != nil {
			return nil, err
		}
		out = append(out, layer{&baseRun{baseFile: b, done: func() { _ = f.Close() }}, m.Base.Checkpoint})
	}
	for _, f := range m.Frames {
		out = append(out, layer{&logRun{s: s, ref: f}, f.Checkpoint})
	}
	return out, nil
}

// logRun reads one frame. It copies the chunk, so that the log's block can go.
type logRun struct {
	s   *LogStore
	ref FrameRef
	buf []byte
}

func (r *logRun) chunks() int { return int(r.ref.Count) }
func (r *logRun) close()      {}

func (r *logRun) record(ctx context.Context, i int) ([]byte, error) {
	want, found := r.ref.First+uint64(i), false
	if want < r.s.log.First() || want > r.s.log.Last() {
		return nil, fmt.Errorf("chunk %d at position %d: %w", i, want, ErrMissing)
	}
	err := r.s.log.scan(ctx, want, func(pos uint64, rec []byte) (bool, error) {
		if found = pos == want; found {
			r.buf = append(r.buf[:0], rec...)
		}
		return false, nil
	})
	if err == nil && !found {
		err = fmt.Errorf("chunk %d at position %d: %w", i, want, ErrMissing)
	}
	return r.buf, err
}

func (r *logRun) body(ctx context.Context, i int) ([]byte, error) {
	b, err := r.record(ctx, i)
	if err != nil {
		return nil, err
	}
	return chunkBody(r.ref, i, b)
}
