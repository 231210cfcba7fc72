package outbox

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/weirstream/weir/pipeline"
)

// Kinds of records. FORMAT.md has the layout of each.
const (
	recordVersion = 1
	marksVersion  = 2 // of marks; 1 did not tell rejected results from dropped ones

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
	rejectedN             uint64 // of those dropped
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
	dst = append(dst, marksVersion, kindMarks)
	dst = binary.AppendUvarint(dst, uint64(len(marks)))
	for i := range marks {
		m := &marks[i]
		dst = appendString(dst, m.uid)
		for _, v := range [...]uint64{m.generation, m.start, m.confirmed, m.boundFirst, m.boundLast, m.confirmedN, m.droppedN, m.rejectedN} {
			dst = binary.AppendUvarint(dst, v)
		}
		dst = binary.LittleEndian.AppendUint64(dst, m.chain)
	}
	return dst
}
