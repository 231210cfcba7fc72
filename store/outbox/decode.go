package outbox

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/weirstream/weir/pipeline"
)

// recordKind gives the kind and the body of a record.
func recordKind(rec []byte) (byte, []byte, error) {
	if len(rec) < 2 {
		return 0, nil, corrupt("short record")
	}
	switch {
	case rec[0] > recordVersion:
		return 0, nil, pipeline.Newer(ErrVersion, "outbox record", uint64(rec[0]), recordVersion)
	case rec[0] < recordVersion: // version 1 had another layout of files (ErrLayout)
		return 0, nil, corrupt(fmt.Sprintf("version %d", rec[0]))
	}
	if rec[1] < kindChunk || rec[1] > kindSettled {
		return 0, nil, corrupt(fmt.Sprintf("kind %d", rec[1]))
	}
	return rec[1], rec[2:], nil
}

// cursor reads a record body. The first short read sets bad and everything after it gives zeros.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) uvarint() uint64 {
	v, n := binary.Uvarint(c.b)
	if n <= 0 {
		c.bad, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) varint() int64 {
	v, n := binary.Varint(c.b)
	if n <= 0 {
		c.bad, c.b = true, nil
		return 0
	}
	c.b = c.b[n:]
	return v
}

func (c *cursor) take(n uint64) []byte {
	if n > uint64(len(c.b)) {
		c.bad, c.b = true, nil
		return nil
	}
	p := c.b[:n:n]
	c.b = c.b[n:]
	return p
}

func (c *cursor) fixed64() uint64 {
	p := c.take(8)
	if p == nil {
		return 0
	}
	return binary.LittleEndian.Uint64(p)
}

func (c *cursor) text() string { return string(c.take(c.uvarint())) }

func (c *cursor) uint32() uint32 {
	v := c.uvarint()
	if v>>32 != 0 {
		c.bad = true
	}
	return uint32(v)
}

// span reads a length and gives first+length; a sum past 2^64 is bad.
func (c *cursor) span(first uint64) uint64 {
	last, carry := bits.Add64(first, c.uvarint(), 0)
	if carry != 0 {
		c.bad = true
	}
	return last
}

func (c *cursor) head() head {
	return head{uid: c.text(), generation: c.uvarint(), inc: Incarnation{Major: c.uint32(), Minor: c.uint32()}}
}

// end checks that the record was read to its last byte.
func (c *cursor) end(what string) error {
	if c.bad || len(c.b) != 0 {
		return corrupt(what)
	}
	return nil
}

// chunkHeader reads a chunk's fields up to the results.
func (c *cursor) chunkHeader() (h chunkHead, flags byte, count uint64, err error) {
	h.head = c.head()
	if f := c.take(1); f != nil {
		flags = f[0]
	}
	h.first = c.uvarint()
	count = c.uvarint()
	h.bytes = int64(c.uvarint())
	h.chainBefore, h.chainLast = c.fixed64(), c.fixed64()
	// Each result takes at least three bytes: a count beyond that is no count, and must not size an allocation.
	if c.bad || count == 0 || count > uint64(len(c.b))/3 || h.first == 0 || flags&^flagChains != 0 || h.first+count-1 < h.first ||
		uint64(h.bytes) > uint64(len(c.b)) {
		return h, flags, count, corrupt("chunk header")
	}
	h.last = h.first + count - 1
	return h, flags, count, nil
}

// decodeChunkHead reads only what recovery needs. The frame's checksum has vouched for the bytes.
func decodeChunkHead(body []byte) (chunkHead, error) {
	c := cursor{b: body}
	h, _, _, err := c.chunkHeader()
	return h, err
}

// decodeChunk appends the results to dst; payloads alias body. first renumbers them (an at-least-once stream may have
// moved since the record was written).
func decodeChunk(dst []pipeline.Result, body []byte, first uint64) ([]pipeline.Result, error) {
	c := cursor{b: body}
	h, flags, count, err := c.chunkHeader()
	if err != nil {
		return dst, err
	}
	chain := h.chainBefore
	var pos, time int64
	var bytes int64
	for i := range count {
		explicit := uint64(0)
		if flags&flagChains != 0 {
			explicit = c.fixed64()
		}
		pos += c.varint()
		time += c.varint()
		p := c.take(c.uvarint())
		if c.bad {
			return dst, corrupt("chunk result")
		}
		if flags&flagChains != 0 {
			chain = explicit
		} else {
			chain = nextChain(chain, p)
		}
		bytes += int64(len(p))
		dst = append(dst, pipeline.Result{Seq: first + i, Last: first + i, Chain: chain, Pos: pipeline.Position(pos),
			Kind: pipeline.ResultData, Time: time, Payload: p})
	}
	if err := c.end("chunk"); err != nil {
		return dst, err
	}
	if chain != h.chainLast || bytes != h.bytes {
		return dst, corrupt("chunk sums")
	}
	return dst, nil
}

func decodeGap(body []byte) (gapRecord, error) {
	c := cursor{b: body}
	g := gapRecord{head: c.head(), first: c.uvarint()}
	g.last = c.span(g.first)
	g.chain = c.fixed64()
	g.pos = pipeline.Position(c.uvarint())
	g.reason = c.text()
	if g.first == 0 {
		c.bad = true
	}
	return g, c.end("gap")
}

func decodeCut(body []byte) (cutRecord, error) {
	c := cursor{b: body}
	r := cutRecord{head: c.head(), seq: c.uvarint(), chain: c.fixed64()}
	return r, c.end("cut")
}

func decodeBound(body []byte) (boundRecord, error) {
	c := cursor{b: body}
	r := boundRecord{head: c.head(), first: c.uvarint()}
	r.last = c.span(r.first)
	if r.first == 0 {
		c.bad = true
	}
	return r, c.end("bound")
}

func decodeDrop(body []byte) (Incarnation, error) {
	c := cursor{b: body}
	i := Incarnation{Major: c.uint32(), Minor: c.uint32()}
	return i, c.end("drop")
}

func decodeRenumber(body []byte) (renumberRecord, error) {
	c := cursor{b: body}
	r := renumberRecord{uid: c.text(), from: c.uvarint(), delta: c.uvarint()}
	return r, c.end("renumber")
}

func decodeForget(body []byte) (string, error) {
	c := cursor{b: body}
	uid := c.text()
	return uid, c.end("forget")
}

func decodeSettled(body []byte) (uid string, seq uint64, err error) {
	c := cursor{b: body}
	uid, seq = c.text(), c.uvarint()
	return uid, seq, c.end("settled")
}

func decodeMarks(body []byte) ([]markEntry, error) {
	c := cursor{b: body}
	n := c.uvarint()
	if n > uint64(len(body))/16 {
		return nil, corrupt("marks count")
	}
	marks := make([]markEntry, 0, n)
	for range n {
		m := markEntry{uid: c.text()}
		for _, p := range [...]*uint64{&m.generation, &m.start, &m.confirmed, &m.boundFirst, &m.boundLast, &m.confirmedN, &m.droppedN, &m.causes[0], &m.causes[1], &m.causes[2]} {
			*p = c.uvarint()
		}
		m.chain = c.fixed64()
		marks = append(marks, m)
	}
	return marks, c.end("marks")
}
