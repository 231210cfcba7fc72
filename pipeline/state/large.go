package state

import (
	"encoding/binary"
	"math"
)

// large is a table whose entries lie in a Backing. What was used last is kept in memory as well, in hot; what was changed goes to the
// Backing in batches, at a barrier at the latest. DESIGN.md tells the keys. The table's owner owns it, but for what is
// said to be guarded by the table's lock.
type large struct {
	t    *Table
	pool *Pool
	db   Backing

	entries, marks, expiry []byte // key prefixes

	hot     *Table              // key in the Backing -> flags and record
	changed []uint32            // entries of hot that are to be written
	waiting map[uint64]struct{} // hashes of their groups (group.go); nil: not a Map table
	hand    uint32              // of the eviction
	batch   Batch
	missed  []byte // the key that was last found absent from the Backing; nil: none

	live  int      // records, those expired and not yet reclaimed among them
	gen   uint32   // of what changes now
	held  uint32   // what was changed in this generation or before is in a checkpoint, or held by one; guarded by the lock
	given []uint32 // generations that aborted checkpoints gave back; guarded by the lock
	dirty int      // marks of those and of gen, at most; guarded by the lock

	now      int64
	due      int64  // no expiry lies below
	owed     int64  // nor does one that is not written yet
	expiries *Queue // (stamp, place); nil without TTL
	expired  []byte // scratch: the place that is looked at
	loading  bool
	lastLoad []byte
	loads    int  // in the batch
	restamp  bool // some that were loaded have no time yet

	unmarked bool // changes are in no checkpoint

	key, buf []byte // scratch
	fault    largeFault
}

// largeFault is a mistake planted by a test.
type largeFault struct {
	lateFlush bool // what waits to be written is not in the snapshot of the barrier
	oldMark   bool // an entry that was marked once is not marked again

	blindWalk bool // a walk does not see what waits

	appendsHeld bool // a chunk that a checkpoint has takes elements
}

// A cached record: flags u8, gen u32, (stamp i64 with a TTL), value. In the Backing it has no flags.
const (
	hotUsed    = 1 << iota // since the hand was here
	hotChanged             // not as in the Backing
	hotMark                // its mark is to be written
	hotExpiry              // its expiry is to be written
	hotDeleted             // it is absent
	hotFresh               // the Backing has no record of it
)

const (
	genAt        = 1
	largeStampAt = genAt + 4

	// changedMax bounds what a barrier has to write before it goes on.
	changedMax = 4096
	// changedBytesMax likewise.
	changedBytesMax = 1 << 20
)

func newLarge(t *Table, p *Pool) *large {
	l := &large{t: t, pool: p, db: p.backing, gen: 1, due: math.MaxInt64, owed: math.MaxInt64}
	n := p.number()
	space := byte('e')
	if t.spec.Kind == Map {
		space, l.waiting = groupSpace, map[uint64]struct{}{}
	}
	l.entries, l.marks, l.expiry = prefix(n, space), prefix(n, 'm'), prefix(n, 'x')
	l.hot = New(Spec{Name: t.spec.Name, Kind: Value})
	l.hot.untracked = true
	l.batch = l.db.Batch()
	p.tables.Add(1)
	if t.layout.ttl {
		l.expiries = newQueue(&Index{table: t.spec.Name, db: l.db, prefix: l.expiry, batch: l.db.Batch()}, p)
	}
	return l
}

func prefix(table uint32, space byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, table), space)
}

// after is the end of the keys that begin with p, which does not end in 0xff.
func after(p []byte) []byte {
	end := append([]byte(nil), p...)
	end[len(end)-1]++
	return end
}

// must ends the call when the Backing fails.
func (l *large) must(err error) {
	if err != nil {
		panic(&BackingError{Table: l.t.spec.Name, Err: err})
	}
}

// head is the length of what stands before the value in a cached record.
func (l *large) head() int {
	if l.t.layout.ttl {
		return largeStampAt + 8
	}
	return largeStampAt
}

// place is the key of an entry, without prefix. In a Map table the key is made self-delimiting, in an order-preserving way: 00 is
// written 00 FF, its end 00 01.
func (l *large) place(dst, key, sub []byte) []byte {
	if l.t.spec.Kind != Map {
		return key
	}
	return append(appendEscaped(dst, key), sub...)
}

func appendEscaped(dst, key []byte) []byte {
	for _, c := range key {
		if dst = append(dst, c); c == 0 {
			dst = append(dst, 0xff)
		}
	}
	return append(dst, 0, 1)
}

// split is the inverse of place; the key is appended to dst where it has to be unescaped.
func (l *large) split(dst, place []byte) (key, sub []byte) {
	if l.t.spec.Kind != Map {
		return place, nil
	}
	for i := 0; i+1 < len(place); i++ {
		if place[i] != 0 {
			dst = append(dst, place[i])
			continue
		}
		if i++; place[i] == 1 {
			return dst, place[i+1:]
		}
		dst = append(dst, 0)
	}
	panic("BUG: state table " + l.t.spec.Name + ": a key without end")
}

// cached gives the record of an entry of hot.
func (l *large) cached(id uint32) []byte {
	return l.hot.layout.value(l.hot.slab.at(l.hot.index.entry(id).ref))
}

// find gives the entry of hot for a place, having put the Backing's record there when it was not. 0: there is no record anywhere. An
// entry with hotDeleted or past its TTL may be given.
func (l *large) find(place []byte) uint32 {
	hash := hashOf(place, nil)
	if id := l.hot.find(hash, place, nil); id != 0 {
		l.cached(id)[0] |= hotUsed
		return id
	}
	if !l.fetch(place) {
		return 0
	}
	return l.keep(hash, place)
}

// fetch reads a record from the Backing to buf, behind a byte for the flags.
func (l *large) fetch(place []byte) bool {
	if l.missed != nil && string(l.missed) == string(place) {
		return false
	}
	l.key = append(append(l.key[:0], l.entries...), place...)
	b, found, err := l.db.Get(append(l.buf[:0], hotUsed), l.key)
	l.must(err)
	l.buf = b
	if !found {
		l.missed = append(l.missed[:0], place...)
	}
	return found
}

// keep puts what fetch read into hot. It moves no record, since views of others may be in use.
func (l *large) keep(hash uint32, place []byte) uint32 {
	h := l.hot
	ref := h.slab.alloc(capacity(h.layout.size(len(place), 0, len(l.buf))))
	rec := h.slab.at(ref)
	h.layout.write(rec, place, nil, uint32(len(l.buf)), nil)
	copy(h.layout.value(rec), l.buf)
	h.live++
	return h.index.insert(hash, ref)
}

// get gives a view of a value, valid until the next mutating call.
func (l *large) get(key, sub []byte) ([]byte, bool) {
	l.settle()
	var scratch [128]byte
	place := l.place(scratch[:0], key, sub)
	hash := hashOf(place, nil)
	var rec []byte
	if id := l.hot.find(hash, place, nil); id != 0 {
		rec = l.cached(id)
		rec[0] |= hotUsed
	} else if !l.fetch(place) {
		return nil, false
	} else if l.hotBytes() > l.pool.share()+l.pool.share()/4 { // nothing is evicted while others hold views
		rec = append([]byte(nil), l.buf...)
	} else {
		rec = l.cached(l.keep(hash, place))
	}
	if !l.there(rec) {
		return nil, false
	}
	return rec[l.head():len(rec):len(rec)], true
}

func (l *large) there(rec []byte) bool { return rec[0]&hotDeleted == 0 && !l.over(rec) }

func (l *large) over(rec []byte) bool {
	return l.t.layout.ttl && l.stamp(rec) <= l.now-l.t.spec.TTL
}

func (l *large) stamp(rec []byte) int64 {
	return int64(binary.LittleEndian.Uint64(rec[largeStampAt:]))
}

func genOf(rec []byte) uint32 { return binary.LittleEndian.Uint32(rec[genAt:]) }

// hotEntryBytes is what an entry of hot takes besides its record: index and bucket.
const hotEntryBytes = 28

func (l *large) hotBytes() int64 {
	return l.hot.slab.used - l.hot.slab.dead + int64(l.hot.index.used)*hotEntryBytes
}
