package log

import (
	"encoding/binary"
	"hash/crc32"
	"iter"

	"github.com/klauspost/compress/s2"

	"github.com/weirstream/weir/pipeline"
)

// The frame header (FORMAT.md). All numbers are little endian.
const (
	frameMagic   = 0x314c5257 // "WRL1"
	frameVersion = 1
	headerBytes  = 72

	flagZstd    = 1 << 0 // the body is one zstd frame
	flagTrusted = 1 << 1 // the wall clock was trusted
	flagStart   = 1 << 2 // first sector of a segment in use; no records
	flagFree    = 1 << 3 // first sector of a recycled segment; no records
	flagLost    = 1 << 4 // stands for positions that will never have records
	flagS2      = 1 << 5 // the body is one S2 block
	flagsKnown  = flagZstd | flagTrusted | flagStart | flagFree | flagLost | flagS2

	// whyLeftOut in a LOST frame says that nothing was lost. Builds before it take the range for a loss, and tell of it.
	whyLeftOut = 1

	// frameAlign is where frames begin; pageBytes is what page cache and flash write at once.
	frameAlign = 8
	pageBytes  = 4096

	// frameRawBytes is where a block is cut into frames: a reader works on one frame at a time.
	frameRawBytes = 256 << 10
	// bodyBytesMax bounds what a header may claim.
	bodyBytesMax = RecordBytesMax + frameRawBytes + 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is a frame's header.
type header struct {
	flags         byte
	epoch         uint64 // of the segment: one higher each time a file is taken into use
	first, last   uint64 // positions; no records: last = first-1
	syncedThrough uint64 // the position known to be durable when this frame was written
	stamp         pipeline.Stamp
	bodyBytes     uint32 // as stored
	rawBytes      uint32 // uncompressed
	leftOut       bool   // of LOST: on purpose, no record ever had these positions here
}

func (h *header) count() uint64 { return h.last + 1 - h.first }

// seal writes the header, with the checksum over it and the body, to the front of frame; the body lies behind it already.
func (h *header) seal(frame []byte) {
	le := binary.LittleEndian
	le.PutUint32(frame, frameMagic)
	frame[4], frame[5], frame[6], frame[7] = frameVersion, h.flags, 0, 0
	if h.stamp.Trusted {
		frame[5] |= flagTrusted
	}
	le.PutUint64(frame[8:], h.epoch)
	le.PutUint64(frame[16:], h.first)
	le.PutUint64(frame[24:], h.last)
	le.PutUint64(frame[32:], h.syncedThrough)
	le.PutUint64(frame[40:], uint64(h.stamp.Elapsed))
	le.PutUint64(frame[48:], uint64(h.stamp.Wall))
	le.PutUint32(frame[56:], h.bodyBytes)
	le.PutUint32(frame[60:], h.rawBytes)
	le.PutUint32(frame[64:], 0)
	if h.leftOut {
		frame[64] = whyLeftOut
	}
	le.PutUint32(frame[68:], checksum(frame))
}

// checksum covers the header up to the checksum field, and the body.
func checksum(frame []byte) uint32 {
	return crc32.Update(crc32.Checksum(frame[:68], castagnoli), castagnoli, frame[headerBytes:])
}

// frameSize is how many bytes the frame at the start of b has, by its header: not verified.
func frameSize(b []byte) (int, error) {
	if len(b) < headerBytes || binary.LittleEndian.Uint32(b) != frameMagic {
		return 0, ErrMagic
	}
	n := binary.LittleEndian.Uint32(b[56:])
	if n > bodyBytesMax {
		return 0, ErrChecksum
	}
	return headerBytes + int(n), nil
}

// parse verifies the frame at the start of b. Version and flags are judged when the checksum holds: else it is damage. The
// place of body size and checksum is the same in every version. body aliases b.
func parse(b []byte) (h header, body []byte, err error) {
	size, err := frameSize(b)
	if err != nil {
		return h, nil, err
	}
	le := binary.LittleEndian
	if size > len(b) || checksum(b[:size]) != le.Uint32(b[68:]) {
		return h, nil, ErrChecksum
	}
	h = header{
		flags: b[5], epoch: le.Uint64(b[8:]), first: le.Uint64(b[16:]), last: le.Uint64(b[24:]), syncedThrough: le.Uint64(b[32:]),
		stamp:     pipeline.Stamp{Elapsed: int64(le.Uint64(b[40:])), Wall: int64(le.Uint64(b[48:])), Trusted: b[5]&flagTrusted != 0},
		bodyBytes: le.Uint32(b[56:]), rawBytes: le.Uint32(b[60:]), leftOut: b[5]&flagLost != 0 && b[64] == whyLeftOut,
	}
	switch {
	case b[4] > frameVersion:
		return h, nil, pipeline.Newer(ErrVersion, "log frame", uint64(b[4]), frameVersion)
	case b[4] < frameVersion:
		return h, nil, ErrCorrupt
	case b[5]&^flagsKnown != 0 || b[6] != 0 || b[7] != 0:
		return h, nil, pipeline.NewerFlags(ErrFlags, "log frame", uint64(b[5]&^flagsKnown)|uint64(b[6])<<8|uint64(b[7])<<16)
	case h.first == 0 || h.last+1 < h.first || h.last == ^uint64(0):
		return h, nil, ErrCorrupt
	}
	return h, b[headerBytes:size], nil
}

// unpack gives the uncompressed body of a data frame in memory of its own, checked to be exactly the header's records.
func unpack(codec *Codec, h *header, body []byte) (raw []byte, err error) {
	if h.rawBytes > bodyBytesMax {
		return nil, ErrCorrupt
	}
	raw = make([]byte, 0, h.rawBytes)
	switch h.flags & (flagZstd | flagS2) {
	case 0:
		raw = append(raw, body...)
	case flagZstd:
		raw, err = codec.Unpack(raw, body)
	case flagS2:
		if n, lerr := s2.DecodedLen(body); lerr != nil || n != int(h.rawBytes) { // before it makes room for what a body claims
			return nil, ErrCorrupt
		}
		raw, err = s2.Decode(raw[:h.rawBytes], body)
	default:
		return nil, ErrCorrupt
	}
	if err != nil || len(raw) != int(h.rawBytes) {
		return nil, ErrCorrupt
	}
	return raw, checkRecords(raw, h.count())
}

// appendRecord adds a record to a raw body.
func appendRecord(dst []byte, size int, parts [][]byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(size))
	for _, p := range parts {
		dst = append(dst, p...)
	}
	return dst
}

// checkRecords walks a raw body: exactly count records and nothing behind them.
func checkRecords(raw []byte, count uint64) error {
	for ; count > 0; count-- {
		n, w := binary.Uvarint(raw)
		if w <= 0 || n > uint64(len(raw)-w) {
			return ErrCorrupt
		}
		raw = raw[w+int(n):]
	}
	if len(raw) != 0 {
		return ErrCorrupt
	}
	return nil
}

// Block is a run of consecutive durable records with one stamp. It is immutable and stays valid as long as it is referenced.
type Block struct {
	First, Last uint64
	Stamp       pipeline.Stamp
	// Lost tells that the positions First to Last hold no records: they were damaged, or are left out for ever. LeftOut: on purpose (SkipTo), no record ever had them here.
	Lost, LeftOut bool
	raw           []byte
	skip          uint64 // records of raw below First
}

// Count is the number of positions.
func (b *Block) Count() int { return int(b.Last - b.First + 1) }

// Records gives each record with its position. The bytes alias the block.
func (b *Block) Records() iter.Seq2[uint64, []byte] {
	return func(yield func(uint64, []byte) bool) {
		raw, pos := b.raw, b.First-b.skip
		for len(raw) > 0 {
			n, w := binary.Uvarint(raw)
			end := w + int(n)
			if pos >= b.First && !yield(pos, raw[w:end:end]) {
				return
			}
			raw = raw[end:]
			pos++
		}
	}
}

// from gives the part of the block from a position on.
func (b *Block) from(pos uint64) *Block {
	if pos <= b.First {
		return b
	}
	c := *b
	c.skip += pos - b.First
	c.First = pos
	return &c
}
