package snapshot

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/weirstream/weir/store/log"
)

const (
	codecRaw  = 0
	codecZstd = 1

	packHeader  = 1 + 4 + 4 // codec, length unpacked, length packed
	packTrailer = 4         // crc32c over header and payload
	unpackedMax = entryBytesMax + chunkBytes + 1<<10
)

// packer compresses and checks blocks. It may be used by several goroutines.
type packer struct {
	codec *log.Codec
}

func newPacker(c *log.Codec) *packer {
	if c == nil {
		c = log.NewCodec()
	}
	return &packer{c}
}

// pack appends the packed form of raw: compressed when that is smaller.
func (p *packer) pack(dst, raw []byte) []byte {
	start := len(dst)
	dst = append(dst, codecZstd)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(raw)))
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = p.codec.Pack(dst, raw)
	if len(dst)-start-packHeader >= len(raw) {
		dst = append(dst[:start+packHeader], raw...)
		dst[start] = codecRaw
	}
	binary.LittleEndian.PutUint32(dst[start+5:], uint32(len(dst)-start-packHeader))
	return appendCRC(dst, start)
}

// packedLen reads how long the packed block at the start of b is.
func packedLen(b []byte) (int, error) {
	if len(b) < packHeader {
		return 0, fmt.Errorf("unpack block of %d bytes: %w", len(b), ErrCorrupt)
	}
	n := uint64(binary.LittleEndian.Uint32(b[5:]))
	if n > unpackedMax {
		return 0, fmt.Errorf("unpack block: length %d: %w", n, ErrCorrupt)
	}
	return packHeader + int(n) + packTrailer, nil
}

// unpack is the inverse of pack; b is exactly one packed block. The result reuses dst.
func (p *packer) unpack(dst, b []byte) ([]byte, error) {
	n, err := packedLen(b)
	if err != nil {
		return nil, err
	}
	if n != len(b) {
		return nil, fmt.Errorf("unpack block of %d bytes, header says %d: %w", len(b), n, ErrCorrupt)
	}
	end := n - packTrailer
	if crc32.Checksum(b[:end], castagnoli) != binary.LittleEndian.Uint32(b[end:]) {
		return nil, fmt.Errorf("unpack block: %w", ErrChecksum)
	}
	raw := binary.LittleEndian.Uint32(b[1:])
	if raw > unpackedMax {
		return nil, fmt.Errorf("unpack block: length %d: %w", raw, ErrCorrupt)
	}
	switch payload := b[packHeader:end]; b[0] {
	case codecRaw:
		dst = append(dst[:0], payload...)
	case codecZstd:
		if dst, err = p.codec.Unpack(dst[:0], payload); err != nil {
			return nil, fmt.Errorf("unpack block: %w: %w", ErrCorrupt, err)
		}
	default:
		return nil, fmt.Errorf("unpack block: codec %d: %w", b[0], ErrFlags)
	}
	if uint32(len(dst)) != raw {
		return nil, fmt.Errorf("unpack block: %d bytes, header says %d: %w", len(dst), raw, ErrCorrupt)
	}
	return dst, nil
}
