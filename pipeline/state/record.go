package state

import "encoding/binary"

// A record: [vlen u32][klen u32] ([stamp i64] with a TTL) ([slen u32][prev u32][next u32] in a Map or List table; of a chunk,
// prev is the older one) key, subkey,
// value; little endian; padded to its capacity. In memory only: FORMAT.md tells what leaves.

// tombstone as vlen: the entry was deleted and the record has no value.
const tombstone = 1<<32 - 1

// layout is where a table's records have their fields.
type layout struct {
	ttl, mapped bool
	sub         int // offset of slen; prev and next follow
	head        int // bytes before the key
}

const (
	klenAt  = 4
	stampAt = 8
)

func newLayout(s Spec) layout {
	l := layout{ttl: s.TTL > 0, mapped: s.Kind != Value, head: 8}
	if l.ttl {
		l.head += 8
	}
	if l.mapped {
		l.sub = l.head
		l.head += 12
	}
	return l
}

func u32(b []byte, at int) uint32       { return binary.LittleEndian.Uint32(b[at:]) }
func setU32(b []byte, at int, v uint32) { binary.LittleEndian.PutUint32(b[at:], v) }

// size of the fields, without padding.
func (l *layout) size(klen, slen, vlen int) int { return l.head + klen + slen + vlen }

// sizeOf is the size of the record at the start of b.
func (l *layout) sizeOf(b []byte) int {
	n := l.head + int(u32(b, klenAt)) + l.slen(b)
	if v := u32(b, 0); v != tombstone {
		n += int(v)
	}
	return n
}

func (l *layout) slen(b []byte) int {
	if !l.mapped {
		return 0
	}
	return int(u32(b, l.sub))
}

// freedBit of a key's length says that a record in a chunk is no longer anybody's. Compaction passes over it and need not ask the index.
const freedBit = 1 << 31

// discard frees the record of capacity n at ref.
func (t *Table) discard(ref uint32, n int) {
	rec := t.slab.at(ref)
	setU32(rec, klenAt, u32(rec, klenAt)|freedBit)
	t.slab.free(ref, n)
}

func dead(b []byte) bool { return u32(b, 0) == tombstone }

// keys gives views of key and subkey.
func (l *layout) keys(b []byte) (key, sub []byte) {
	k := l.head + int(u32(b, klenAt))
	s := k + l.slen(b)
	return b[l.head:k:k], b[k:s:s]
}

// value gives a view of the value, nil for a tombstone.
func (l *layout) value(b []byte) []byte {
	v := u32(b, 0)
	if v == tombstone {
		return nil
	}
	at := l.head + int(u32(b, klenAt)) + l.slen(b)
	return b[at : at+int(v) : at+int(v)]
}

func (l *layout) stamp(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b[stampAt:])) }

func (l *layout) setStamp(b []byte, v int64) { binary.LittleEndian.PutUint64(b[stampAt:], uint64(v)) }

// write fills a fresh record but for the value. links are copied from old when there is one.
func (l *layout) write(b, key, sub []byte, vlen uint32, old []byte) {
	setU32(b, 0, vlen)
	setU32(b, klenAt, uint32(len(key)))
	if l.ttl {
		l.setStamp(b, 0)
	}
	if l.mapped {
		setU32(b, l.sub, uint32(len(sub)))
		setU32(b, l.sub+4, 0)
		setU32(b, l.sub+8, 0)
	}
	if old != nil {
		copy(b[8:l.head], old[8:l.head])
	}
	copy(b[l.head:], key)
	copy(b[l.head+len(key):], sub)
}
