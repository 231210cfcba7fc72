package snapshot

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/weirstream/weir/pipeline"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

func appendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// cursor reads a byte slice; after the first error every read gives zero values. Every length is checked against what is
// left before anything is allocated, so a damaged count cannot ask for memory.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) fail() { c.bad, c.b = true, nil }

func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.fail()
		return nil
	}
	out := c.b[:n:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) u8() uint8 {
	b := c.take(1)
	if b == nil {
		return 0
	}
	return b[0]
}

func (c *cursor) u32() uint32 {
	b := c.take(4)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint32(b)
}

func (c *cursor) u64() uint64 {
	b := c.take(8)
	if b == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// uvarint refuses over-long forms, so that there is one encoding of each value.
func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 || (n > 1 && c.b[n-1] == 0) {
		c.fail()
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) uvarint32() uint32 {
	v := c.uvarint()
	if v > 1<<32-1 {
		c.fail()
		return 0
	}
	return uint32(v)
}

func (c *cursor) bytes() []byte {
	n := c.uvarint()
	if n > uint64(len(c.b)) {
		c.fail()
		return nil
	}
	return c.take(int(n))
}

func (c *cursor) string() string { return string(c.bytes()) }

func (c *cursor) bool() bool {
	v := c.u8()
	if v > 1 {
		c.fail()
	}
	return v == 1
}

// count reads the length of a list whose elements take at least size bytes each.
func (c *cursor) count(size int) int {
	n := c.uvarint()
	if n > uint64(len(c.b)/size) {
		c.fail()
		return 0
	}
	return int(n)
}

func appendBool(dst []byte, v bool) []byte {
	if v {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// appendCRC ends the record that starts at dst[start] with its crc32c.
func appendCRC(dst []byte, start int) []byte {
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// decodeRecord checks kind, version and checksum of a record (kind, version, content, crc32c) and gives the content. Every version ends
// with the checksum, so that a flipped bit in the version does not look like a newer agent.
func decodeRecord(b []byte, kind byte) ([]byte, error) {
	if len(b) < 6 {
		return nil, ErrCorrupt
	}
	if b[0] != kind {
		return nil, ErrMagic
	}
	n := len(b) - 4
	if crc32.Checksum(b[:n], castagnoli) != binary.LittleEndian.Uint32(b[n:]) {
		return nil, ErrChecksum
	}
	switch {
	case b[1] > recordVersion:
		return nil, pipeline.Newer(ErrVersion, "checkpoint record", uint64(b[1]), recordVersion)
	case b[1] < recordVersion:
		return nil, ErrCorrupt
	}
	return b[2:n:n], nil
}
