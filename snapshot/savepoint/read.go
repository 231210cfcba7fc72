package savepoint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/store/log"
)

// File is an open savepoint that verified whole. It implements pipeline.StateSource. It holds an index of 24 bytes per chunk, and one chunk
// while it is read. Several goroutines may read it.
type File struct {
	Head    Head
	Summary Summary

	r      io.ReaderAt
	codec  *log.Codec
	chunks []place
}

// buffers of one reading.
type buffers struct{ item, raw []byte }

// place is where a chunk lies.
type place struct {
	off     int64
	len     uint32
	count   uint32
	results bool
	of      uint32
}

var _ pipeline.StateSource = (*File)(nil)

// Open checks all size bytes of r: the sha256, the form of every item and element, that counts match, keys rise, and results are
// complete. Errors: ErrNotSavepoint, ErrVersion, ErrChecksum, ErrCorrupt, those of r. ctx ends the reading of a large file; told, if not nil, hears how many bytes are
// verified of the twice size that are read.
func Open(ctx context.Context, r io.ReaderAt, size int64, codec *log.Codec, told func(n int64)) (*File, error) {
	if told == nil {
		told = func(int64) {}
	}
	if codec == nil {
		codec = log.NewCodec()
	}
	f := &File{r: r, codec: codec}
	f.Summary.Bytes = uint64(max(size, 0))
	if err := f.checkHead(size); err != nil {
		return nil, err
	}
	if err := f.checkSum(ctx, size, told); err != nil {
		return nil, err
	}
	if err := f.checkItems(ctx, size, told); err != nil {
		return nil, err
	}
	return f, nil
}

// magic is the tag selfDescribed.
var magic = []byte{0xd9, 0xd9, 0xf7}

// Close closes what the file is read from, if that can be closed.
func (f *File) Close() error {
	if c, ok := f.r.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// Counts gives how many entries each table of Head.Tables has.
func (f *File) Counts() []uint64 {
	n := make([]uint64, len(f.Head.Tables))
	for _, p := range f.chunks {
		if !p.results {
			n[p.of] += uint64(p.count)
		}
	}
	return n
}

// checkHead tells a file of another kind, before its checksum calls it damaged.
func (f *File) checkHead(size int64) error {
	b := make([]byte, len(magic))
	if size < int64(len(magic)+32) {
		return fmt.Errorf("%w: %d bytes", ErrNotSavepoint, size)
	}
	if _, err := f.r.ReadAt(b, 0); err != nil {
		return fmt.Errorf("read savepoint: %w", err)
	}
	if string(b) != string(magic) {
		return ErrNotSavepoint
	}
	return nil
}

func (f *File) checkSum(ctx context.Context, size int64, told func(int64)) error {
	sum, buf := sha256.New(), make([]byte, 256<<10)
	for off := int64(0); off < size-32; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := f.r.ReadAt(buf[:min(int64(len(buf)), size-32-off)], off)
		if err != nil && (!errors.Is(err, io.EOF) || n == 0) {
			return fmt.Errorf("read savepoint: %w", err)
		}
		sum.Write(buf[:n])
		off += int64(n)
		told(off)
	}
	sum.Sum(f.Summary.SHA256[:0])
	if _, err := f.r.ReadAt(buf[:32], size-32); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read savepoint: %w", err)
	}
	if string(buf[:32]) != string(f.Summary.SHA256[:]) {
		return ErrChecksum
	}
	return nil
}

// checkItems reads all items once and makes the index.
func (f *File) checkItems(ctx context.Context, size int64, told func(int64)) error {
	s := items{r: f.r, size: size}
	head, err := s.next()
	if err != nil {
		return err
	}
	if err := f.readHead(bytes.Clone(bytes.TrimPrefix(head, magic))); err != nil {
		return err
	}
	seen := progress{f: f}
	if len(f.Head.Sinks) > 0 {
		seen.seq = f.Head.Sinks[0].Confirmed
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		at := s.at()
		item, err := s.next()
		if err != nil {
			return err
		}
		told(size + at)
		if item[0]&^31 == majorArray {
			return f.checkEnd(item, &seen, at+int64(len(item)) == size)
		}
		if err := seen.chunk(item, at); err != nil {
			return fmt.Errorf("item at %d: %w", at, err)
		}
	}
}

// readHead reads the version before the rest: a newer head may have another form.
func (f *File) readHead(b []byte) error {
	var first Head
	r := reader{b: b}
	r.members([]field{{"format", &first.Format}, {"version", &first.Version}, {"writer", &first.Writer}})
	if err := r.end(); err != nil {
		return fmt.Errorf("%w: head: %w", ErrCorrupt, err)
	}
	if first.Format == Format && first.Version > Version {
		return first.check()
	}
	r = reader{b: b}
	r.members(f.Head.fields())
	if err := r.end(); err != nil {
		return fmt.Errorf("%w: head: %w", ErrCorrupt, err)
	}
	return f.Head.check()
}

func (f *File) checkEnd(item []byte, seen *progress, last bool) error {
	var e end
	if err := e.read(item); err != nil {
		return fmt.Errorf("%w: end: %w", ErrCorrupt, err)
	}
	if err := seen.complete(); err != nil {
		return err
	}
	if e.Word != endWord || !last || e.Chunks != uint64(len(f.chunks)) || e.Entries != seen.entries || e.Results != seen.results {
		return fmt.Errorf("%w: end", ErrCorrupt)
	}
	f.Summary.Chunks, f.Summary.Entries, f.Summary.Results = e.Chunks, e.Entries, e.Results
	return nil
}

// content gives the unpacked content of a chunk, which the next call overwrites; one that is not packed is that of item.
func (f *File) content(b *buffers, item []byte) (c chunk, raw []byte, err error) {
	r := reader{b: item}
	r.members(c.fields())
	if err := r.end(); err != nil {
		return c, nil, fmt.Errorf("%w: chunk: %w", ErrCorrupt, err)
	}
	switch {
	case c.Size > chunkMax:
		return c, nil, fmt.Errorf("%w: chunk of %d bytes", ErrCorrupt, c.Size)
	case c.Codec == codecNone:
		raw = c.Data
	case c.Codec == codecZstd:
		if b.raw, err = f.codec.Unpack(b.raw[:0], c.Data); err != nil {
			return c, nil, fmt.Errorf("%w: chunk: %w", ErrCorrupt, err)
		}
		raw = b.raw
	default:
		return c, nil, fmt.Errorf("%w: codec %q", ErrCorrupt, c.Codec)
	}
	if uint64(len(raw)) != c.Size {
		return c, nil, fmt.Errorf("%w: chunk of %d bytes says %d", ErrCorrupt, len(raw), c.Size)
	}
	return c, raw, nil
}

// read gives the content of the chunk at p, which the next call overwrites.
func (f *File) read(b *buffers, p place) ([]byte, error) {
	if cap(b.item) < int(p.len) {
		b.item = make([]byte, p.len)
	}
	b.item = b.item[:p.len]
	if _, err := f.r.ReadAt(b.item, p.off); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read savepoint: %w", err)
	}
	_, raw, err := f.content(b, b.item)
	return raw, err
}

// Sinks implements pipeline.StateSource.
func (f *File) Sinks() (marks []pipeline.SinkMark) {
	for i := range f.Head.Sinks {
		marks = append(marks, f.Head.Sinks[i].Mark())
	}
	return marks
}

// Position implements pipeline.StateSource.
func (f *File) Position() pipeline.Position { return pipeline.Position(f.Head.Position) }

// Entries implements pipeline.StateSource: in rising order of key and subkey. What f gets is valid during the call.
func (f *File) Entries(uid, name string, each func(key, sub, val []byte) error) (state.Spec, bool, error) {
	for i := range f.Head.Tables {
		if t := &f.Head.Tables[i]; t.UID == uid && t.Name == name {
			return t.Spec(), true, f.table(i, each)
		}
	}
	return state.Spec{}, false, nil
}

func (f *File) table(i int, each func(key, sub, val []byte) error) error {
	var b buffers
	for _, p := range f.chunks {
		if p.results || p.of != uint32(i) {
			continue
		}
		raw, err := f.read(&b, p)
		if err != nil {
			return err
		}
		for len(raw) > 0 {
			key, sub, val, rest, ok := nextEntry(raw)
			if !ok {
				return fmt.Errorf("%w: entry", ErrCorrupt)
			}
			if err := each(key, sub, val); err != nil {
				return err
			}
			raw = rest
		}
	}
	return nil
}

// Results calls each for the results of a sink that upstream did not hold, in order of sequence. Payloads are valid during the call.
func (f *File) Results(uid string, each func(r *pipeline.Result) error) error {
	var b buffers
	for _, p := range f.chunks {
		if !p.results || f.Head.Sinks[p.of].UID != uid {
			continue
		}
		raw, err := f.read(&b, p)
		if err != nil {
			return err
		}
		for len(raw) > 0 {
			var r result
			if raw, err = r.read(raw); err != nil {
				return fmt.Errorf("%w: result: %w", ErrCorrupt, err)
			}
			out := r.result()
			if err := each(&out); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *result) result() pipeline.Result {
	return pipeline.Result{Seq: r.Seq, Last: r.Last, Chain: r.Chain, Pos: pipeline.Position(r.Pos), Kind: pipeline.ResultKind(r.Kind), Time: r.Time, Payload: r.Payload}
}
