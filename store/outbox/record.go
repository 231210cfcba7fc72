package outbox

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"github.com/weirstream/weir/pipeline"
)

// Kinds of records. FORMAT.md has the layout of each.
const (
	recordVersion = 1

	kindChunk    = 1 // consecutive results of one stream
	kindGap      = 2 // a range that is sent as a gap
	kindCut      = 3 // entries past a mark are void (RULES 9)
	kindDrop     = 4 // entries of an incarnation are void (RULES 26)
	kindMarks    = 5 // confirmed marks of all streams
	kindBound    = 6 // a batch whose bounds are fixed
	kindRenumber = 7 // at-least-once: entries from a sequence on moved up
	kindForget   = 8 // the stream is no part of the plan any more
	kindSettled  = 9 // past a sequence, upstream holds none of the gaps that a cut made void
)

const flagChains = 1 // chunk: chains are explicit, eight bytes before each payload

// Incarnation is the fencing token under which an entry was written; it mirrors uplink.Incarnation.
type Incarnation struct{ Major, Minor uint32 }

// String prints major.minor.
func (i Incarnation) String() string { return fmt.Sprintf("%d.%d", i.Major, i.Minor) }

// head is what chunk, gap, cut and bound records begin with.
type head struct {
	uid        string
	generation uint64
	inc        Incarnation
}

// chunkHead describes a chunk without its payloads: all that recovery needs.
type chunkHead struct {
	head
	first, last uint64
	chainBefore uint64
	chainLast   uint64
	bytes       int64
}

type gapRecord struct {
	head
	first, last uint64
	chain       uint64
	pos         pipeline.Position
	reason      string
}

type cutRecord struct {
	head
	seq, chain uint64
}

type boundRecord struct {
	head
	first, last uint64
}

type renumberRecord struct {
	uid         string
	from, delta uint64
}

// markEntry is one stream's line in a marks record.
type markEntry struct {
	uid                   string
	generation            uint64
	start                 uint64 // sequence at which the generation began
	confirmed, chain      uint64
	boundFirst, boundLast uint64
	confirmedN, droppedN  uint64 // ledger
}

// nextChain is the chain hash of pipeline/DESIGN.md, "Sinks".
func nextChain(before uint64, payload []byte) uint64 {
	var d xxhash.Digest
	var b [8]byte
	d.Reset()
	binary.LittleEndian.PutUint64(b[:], before)
	_, _ = d.Write(b[:]) // never fails
	_, _ = d.Write(payload)
	return d.Sum64()
}

func appendString(dst []byte, s string) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

func appendHead(dst []byte, kind byte, h *head) []byte {
	dst = append(dst, recordVersion, kind)
	dst = appendString(dst, h.uid)
	dst = binary.AppendUvarint(dst, h.generation)
	dst = binary.AppendUvarint(dst, uint64(h.inc.Major))
	return binary.AppendUvarint(dst, uint64(h.inc.Minor))
}

// appendChunk encodes results, which are consecutive data results; chainBefore is the chain of the one before the first.
func appendChunk(dst []byte, h *head, chainBefore uint64, results []pipeline.Result) []byte {
	var flags byte
	chain := chainBefore
	var bytes uint64
	for i := range results {
		chain = nextChain(chain, results[i].Payload)
		if chain != results[i].Chain {
			flags = flagChains
			chain = results[i].Chain
		}
		bytes += uint64(len(results[i].Payload))
	}
	dst = appendHead(dst, kindChunk, h)
	dst = append(dst, flags)
	dst = binary.AppendUvarint(dst, results[0].Seq)
	dst = binary.AppendUvarint(dst, uint64(len(results)))
	dst = binary.AppendUvarint(dst, bytes)
	dst = binary.LittleEndian.AppendUint64(dst, chainBefore)
	dst = binary.LittleEndian.AppendUint64(dst, chain)
	var pos, time int64
	for i := range results {
		r := &results[i]
		if flags&flagChains != 0 {
			dst = binary.LittleEndian.AppendUint64(dst, r.Chain)
		}
		dst = binary.AppendVarint(dst, int64(r.Pos)-pos) // wraps, exactly undone by the decoder
		dst = binary.AppendVarint(dst, r.Time-time)
		pos, time = int64(r.Pos), r.Time
		dst = binary.AppendUvarint(dst, uint64(len(r.Payload)))
		dst = append(dst, r.Payload...)
	}
	return dst
}

func appendGap(dst []byte, g *gapRecord) []byte {
	dst = appendHead(dst, kindGap, &g.head)
	dst = binary.AppendUvarint(dst, g.first)
	dst = binary.AppendUvarint(dst, g.last-g.first)
	dst = binary.LittleEndian.AppendUint64(dst, g.chain)
	dst = binary.AppendUvarint(dst, uint64(g.pos))
	return appendString(dst, g.reason)
}

func appendCut(dst []byte, c *cutRecord) []byte {
	dst = appendHead(dst, kindCut, &c.head)
	dst = binary.AppendUvarint(dst, c.seq)
	return binary.LittleEndian.AppendUint64(dst, c.chain)
}

func appendBound(dst []byte, b *boundRecord) []byte {
	dst = appendHead(dst, kindBound, &b.head)
	dst = binary.AppendUvarint(dst, b.first)
	return binary.AppendUvarint(dst, b.last-b.first)
}

func appendDrop(dst []byte, inc Incarnation) []byte {
	dst = append(dst, recordVersion, kindDrop)
	dst = binary.AppendUvarint(dst, uint64(inc.Major))
	return binary.AppendUvarint(dst, uint64(inc.Minor))
}

func appendRenumber(dst []byte, r *renumberRecord) []byte {
	dst = append(dst, recordVersion, kindRenumber)
	dst = appendString(dst, r.uid)
	dst = binary.AppendUvarint(dst, r.from)
	return binary.AppendUvarint(dst, r.delta)
}

func appendForget(dst []byte, uid string) []byte {
	return appendString(append(dst, recordVersion, kindForget), uid)
}

func appendSettled(dst []byte, uid string, seq uint64) []byte {
	return binary.AppendUvarint(appendString(append(dst, recordVersion, kindSettled), uid), seq)
}

func appendMarks(dst []byte, marks []markEntry) []byte {
	dst = append(dst, recordVersion, kindMarks)
	dst = binary.AppendUvarint(dst, uint64(len(marks)))
	for i := range marks {
		m := &marks[i]
		dst = appendString(dst, m.uid)
		for _, v := range [...]uint64{m.generation, m.start, m.confirmed, m.boundFirst, m.boundLast, m.confirmedN, m.droppedN} {
			dst = binary.AppendUvarint(dst, v)
		}
		dst = binary.LittleEndian.AppendUint64(dst, m.chain)
	}
	return dst
}

// recordKind gives the kind and the body of a record.
func recordKind(rec []byte) (byte, []byte, error) {
	if len(rec) < 2 {
		return 0, nil, corrupt("short record")
	}
	if rec[0] != recordVersion {
		return 0, nil, fmt.Errorf("%w: %d", ErrVersion, rec[0])
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
		for _, p := range [...]*uint64{&m.generation, &m.start, &m.confirmed, &m.boundFirst, &m.boundLast, &m.confirmedN, &m.droppedN} {
			*p = c.uvarint()
		}
		m.chain = c.fixed64()
		marks = append(marks, m)
	}
	return marks, c.end("marks")
}
