package snapshot

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

const (
	opPut    = 0 // key, sub, val
	opDelete = 1 // key, sub
	opTable  = 2 // uid, name: the table of what follows
)

// entry is one key of one table. Its slices alias the body that it was read from.
type entry struct {
	uid, table    []byte
	key, sub, val []byte
	deleted       bool
}

// compare orders entries by (uid, table, key, sub), as bytes.
func (e *entry) compare(o *entry) int {
	if c := bytes.Compare(e.uid, o.uid); c != 0 {
		return c
	}
	if c := bytes.Compare(e.table, o.table); c != 0 {
		return c
	}
	if c := bytes.Compare(e.key, o.key); c != 0 {
		return c
	}
	return bytes.Compare(e.sub, o.sub)
}

func (e *entry) compareTable(uid, table string) int {
	if c := bytes.Compare(e.uid, []byte(uid)); c != 0 {
		return c
	}
	return bytes.Compare(e.table, []byte(table))
}

// body builds the content of a chunk or of a base block: entries in rising order (FORMAT.md). Its zero value is empty.
type body struct {
	buf        []byte
	uid, table []byte
	entries    uint64
	open       bool // a table op was written
}

func (w *body) reset() {
	w.buf, w.uid, w.table, w.entries, w.open = w.buf[:0], w.uid[:0], w.table[:0], 0, false
}

func (w *body) add(e *entry) {
	if !w.open || !bytes.Equal(w.uid, e.uid) || !bytes.Equal(w.table, e.table) {
		w.buf = append(w.buf, opTable)
		w.buf = appendBytes(appendBytes(w.buf, e.uid), e.table)
		w.uid, w.table = append(w.uid[:0], e.uid...), append(w.table[:0], e.table...)
		w.open = true
	}
	w.entries++
	if e.deleted {
		w.buf = append(w.buf, opDelete)
		w.buf = appendBytes(appendBytes(w.buf, e.key), e.sub)
		return
	}
	w.buf = append(w.buf, opPut)
	w.buf = appendBytes(appendBytes(appendBytes(w.buf, e.key), e.sub), e.val)
}

// bodyReader walks a body. It refuses entries that do not rise.
type bodyReader struct {
	c     cursor
	cur   entry
	first bool
}

func newBodyReader(b []byte) bodyReader { return bodyReader{c: cursor{b: b}, first: true} }

// next moves to the next entry; ok is false at the end.
func (r *bodyReader) next() (ok bool, err error) {
	var tableSeen bool
	e := r.cur
	for len(r.c.b) > 0 {
		switch op := r.c.u8(); {
		case op == opTable && !tableSeen:
			e.uid, e.table = r.c.bytes(), r.c.bytes()
			tableSeen = true
			if r.c.bad {
				return false, fmt.Errorf("read state entries: table name: %w", ErrCorrupt)
			}
			continue
		case op == opPut && (tableSeen || !r.first):
			e.key, e.sub, e.val, e.deleted = r.c.bytes(), r.c.bytes(), r.c.bytes(), false
		case op == opDelete && (tableSeen || !r.first):
			e.key, e.sub, e.val, e.deleted = r.c.bytes(), r.c.bytes(), nil, true
		default:
			return false, fmt.Errorf("read state entries: op %d: %w", op, ErrCorrupt)
		}
		if r.c.bad {
			return false, fmt.Errorf("read state entries: cut entry: %w", ErrCorrupt)
		}
		if !r.first && r.cur.compare(&e) >= 0 {
			return false, fmt.Errorf("read state entries: order: %w", ErrCorrupt)
		}
		r.cur, r.first = e, false
		return true, nil
	}
	if tableSeen {
		return false, fmt.Errorf("read state entries: table without entries: %w", ErrCorrupt)
	}
	return false, nil
}

// firstTable reads the table that a body begins with, without decoding the rest.
func firstTable(b []byte) (e entry, err error) {
	c := cursor{b: b}
	if op := c.u8(); op != opTable {
		return e, fmt.Errorf("read state entries: op %d at the start: %w", op, ErrCorrupt)
	}
	e.uid, e.table = c.bytes(), c.bytes()
	if c.bad {
		return e, fmt.Errorf("read state entries: table name: %w", ErrCorrupt)
	}
	return e, nil
}

// Chunk record: kind, version, checkpoint, run, index, body, crc32c.
const (
	kindChunk    = 'D'
	kindManifest = 'M'
	kindPrune    = 'P'
	kindAside    = 'S'

	recordVersion = 1
	chunkHeader   = 2 + 8 + 4 + 4
)

// chunkID is where a chunk belongs; it is inside the checksum, so that a chunk never passes for another.
type chunkID struct {
	checkpoint uint64
	run, index uint32
}

func appendChunk(dst []byte, id chunkID, body []byte) []byte {
	start := len(dst)
	dst = append(dst, kindChunk, recordVersion)
	dst = binary.LittleEndian.AppendUint64(dst, id.checkpoint)
	dst = binary.LittleEndian.AppendUint32(dst, id.run)
	dst = binary.LittleEndian.AppendUint32(dst, id.index)
	dst = append(dst, body...)
	return appendCRC(dst, start)
}

// decodeChunk checks a chunk record and gives its body, which aliases b.
func decodeChunk(b []byte) (id chunkID, body []byte, err error) {
	rest, err := decodeRecord(b, kindChunk)
	if err != nil {
		return id, nil, fmt.Errorf("decode chunk: %w", err)
	}
	c := cursor{b: rest}
	id = chunkID{c.u64(), c.u32(), c.u32()}
	if c.bad {
		return id, nil, fmt.Errorf("decode chunk of %d bytes: %w", len(b), ErrCorrupt)
	}
	return id, c.b, nil
}
