package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"hash/crc32"
	"io"

	"github.com/weirstream/weir/pipeline"
)

const (
	baseMagic      = "WSBF"
	baseEndMagic   = "WSBE"
	baseVersion    = 1
	baseHeader     = 4 + 2 + 2 + 16 + 8 + 8 + 4
	baseTrailer    = 8 + 4 + 4 + 8 + 32 + 4
	baseBlockBytes = 32 << 10 // unpacked size at which a block is closed
	footerBytesMax = 64 << 20
)

// baseWriter writes a base file (FORMAT.md) front to back into w.
type baseWriter struct {
	w        io.Writer
	p        *packer
	sum      hash.Hash
	off      uint64
	block    body
	packed   []byte
	index    []byte
	blocks   uint64
	last     uint64 // offset of the block before
	entries  uint64
	unpacked uint64
}

func newBaseWriter(w io.Writer, p *packer, pipeline UUID, checkpoint, serial uint64) (*baseWriter, error) {
	b := &baseWriter{w: w, p: p, sum: sha256.New()}
	h := append([]byte(nil), baseMagic...)
	h = binary.LittleEndian.AppendUint16(h, baseVersion)
	h = binary.LittleEndian.AppendUint16(h, 0)
	h = append(h, pipeline[:]...)
	h = binary.LittleEndian.AppendUint64(h, checkpoint)
	h = binary.LittleEndian.AppendUint64(h, serial)
	return b, b.put(appendCRC(h, 0))
}

func (b *baseWriter) put(p []byte) error {
	b.sum.Write(p)
	n, err := b.w.Write(p)
	b.off += uint64(n)
	return err
}

// add takes the next entry in order.
func (b *baseWriter) add(e *entry) error {
	if b.block.entries > 0 && len(b.block.buf)+len(e.key)+len(e.sub)+len(e.val) > baseBlockBytes {
		if err := b.flush(); err != nil {
			return err
		}
	}
	b.block.add(e)
	b.entries++
	return nil
}

func (b *baseWriter) flush() error {
	if b.block.entries == 0 {
		return nil
	}
	first, err := firstTable(b.block.buf)
	if err != nil {
		return err
	}
	b.index = binary.AppendUvarint(b.index, b.off-b.last)
	b.index = appendBytes(appendBytes(b.index, first.uid), first.table)
	b.blocks++
	b.last = b.off
	b.packed = b.p.pack(b.packed[:0], b.block.buf)
	b.unpacked += uint64(len(b.block.buf))
	b.block.reset()
	return b.put(b.packed)
}

// finish writes footer and trailer and gives size and hash. The caller syncs.
func (b *baseWriter) finish(tables []TableMeta) (size uint64, sum [32]byte, err error) {
	if err := b.flush(); err != nil {
		return 0, sum, err
	}
	footer := binary.AppendUvarint(nil, uint64(len(tables)))
	for _, t := range tables {
		footer = appendTable(footer, t)
	}
	footer = binary.AppendUvarint(footer, b.blocks)
	footer = append(footer, b.index...)
	at := b.off
	if err := b.put(footer); err != nil {
		return 0, sum, err
	}
	t := binary.LittleEndian.AppendUint64(nil, at)
	t = binary.LittleEndian.AppendUint32(t, uint32(len(footer)))
	t = binary.LittleEndian.AppendUint32(t, crc32.Checksum(footer, castagnoli))
	t = binary.LittleEndian.AppendUint64(t, b.entries)
	if err := b.put(t); err != nil {
		return 0, sum, err
	}
	b.sum.Sum(sum[:0])
	n, err := b.w.Write(append(append([]byte(nil), sum[:]...), baseEndMagic...))
	return b.off + uint64(n), sum, err
}

// baseFile reads a base. It holds the index, and one block per open run.
type baseFile struct {
	r          io.ReaderAt
	p          *packer
	checkpoint uint64
	serial     uint64
	entries    uint64
	sum        [32]byte
	tables     []TableMeta
	blocks     []baseBlock
	footer     uint64 // where the blocks end
}

type baseBlock struct {
	off        uint64
	uid, table string // of its first entry
}

// openBase checks header, trailer and footer of a base of size bytes. Blocks are checked when they are read.
func openBase(r io.ReaderAt, size int64, p *packer) (*baseFile, error) {
	if size < baseHeader+baseTrailer {
		return nil, fmt.Errorf("open base of %d bytes: %w", size, ErrCorrupt)
	}
	h, t := make([]byte, baseHeader), make([]byte, baseTrailer)
	if _, err := r.ReadAt(h, 0); err != nil {
		return nil, fmt.Errorf("read base header: %w", err)
	}
	if _, err := r.ReadAt(t, size-baseTrailer); err != nil && err != io.EOF {
		return nil, fmt.Errorf("read base trailer: %w", err)
	}
	if string(h[:4]) != baseMagic || string(t[baseTrailer-4:]) != baseEndMagic {
		return nil, fmt.Errorf("open base: %w", ErrMagic)
	}
	if crc32.Checksum(h[:baseHeader-4], castagnoli) != binary.LittleEndian.Uint32(h[baseHeader-4:]) {
		return nil, fmt.Errorf("open base: header: %w", ErrChecksum)
	}
	if v := binary.LittleEndian.Uint16(h[4:]); v > baseVersion {
		return nil, pipeline.Newer(ErrVersion, "base of a checkpoint", uint64(v), baseVersion)
	} else if v < baseVersion {
		return nil, fmt.Errorf("open base version %d: %w", v, ErrCorrupt)
	}
	if f := binary.LittleEndian.Uint16(h[6:]); f != 0 {
		return nil, pipeline.NewerFlags(ErrFlags, "base of a checkpoint", uint64(f))
	}
	b := &baseFile{r: r, p: p, checkpoint: binary.LittleEndian.Uint64(h[24:]), serial: binary.LittleEndian.Uint64(h[32:])}
	b.footer = binary.LittleEndian.Uint64(t)
	n, crc := binary.LittleEndian.Uint32(t[8:]), binary.LittleEndian.Uint32(t[12:])
	b.entries = binary.LittleEndian.Uint64(t[16:])
	copy(b.sum[:], t[24:])
	if n > footerBytesMax || b.footer < baseHeader || b.footer != uint64(size)-baseTrailer-uint64(n) {
		return nil, fmt.Errorf("open base: footer of %d bytes at %d: %w", n, b.footer, ErrCorrupt)
	}
	footer := make([]byte, n)
	if _, err := r.ReadAt(footer, int64(b.footer)); err != nil {
		return nil, fmt.Errorf("read base footer: %w", err)
	}
	if crc32.Checksum(footer, castagnoli) != crc {
		return nil, fmt.Errorf("open base: footer: %w", ErrChecksum)
	}
	return b, b.decodeFooter(footer)
}

func (b *baseFile) decodeFooter(footer []byte) error {
	c := cursor{b: footer}
	for range c.count(22) {
		b.tables = append(b.tables, c.table())
	}
	off := uint64(0)
	for range c.count(3) {
		off += c.uvarint()
		b.blocks = append(b.blocks, baseBlock{off, c.string(), c.string()})
		if off < baseHeader || off >= b.footer {
			c.fail()
		}
	}
	if c.bad || len(c.b) != 0 {
		return fmt.Errorf("open base: footer: %w", ErrCorrupt)
	}
	return nil
}

// verify reads the whole file once and compares the sha256.
func (b *baseFile) verify(ctx context.Context, size int64) error {
	sum := sha256.New()
	src := io.NewSectionReader(b.r, 0, size-36)
	buf := make([]byte, 64<<10)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := src.Read(buf)
		sum.Write(buf[:n])
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("read base: %w", err)
		}
	}
	if got := [32]byte(sum.Sum(nil)); got != b.sum {
		return fmt.Errorf("verify base: sha256: %w", ErrChecksum)
	}
	return nil
}

// baseRun is one reading of a base.
type baseRun struct {
	*baseFile
	packed, raw []byte
	done        func()
}

func (r *baseRun) chunks() int { return len(r.blocks) }

func (r *baseRun) close() {
	if r.done != nil {
		r.done()
		r.done = nil
	}
}

func (r *baseRun) body(_ context.Context, i int) ([]byte, error) {
	end := r.footer
	if i+1 < len(r.blocks) {
		end = r.blocks[i+1].off
	}
	n := end - r.blocks[i].off
	if n > unpackedMax+packHeader+packTrailer {
		return nil, fmt.Errorf("read base block %d of %d bytes: %w", i, n, ErrCorrupt)
	}
	if uint64(cap(r.packed)) < n {
		r.packed = make([]byte, n)
	}
	r.packed = r.packed[:n]
	if _, err := r.r.ReadAt(r.packed, int64(r.blocks[i].off)); err != nil {
		return nil, fmt.Errorf("read base block %d: %w", i, err)
	}
	raw, err := r.p.unpack(r.raw, r.packed)
	if err != nil {
		return nil, fmt.Errorf("read base block %d: %w", i, err)
	}
	r.raw = raw
	return raw, nil
}
