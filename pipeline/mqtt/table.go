package mqtt

import "github.com/weirstream/weir/pipeline"

// pageEntries is the number of packet ids in one page of the table; pages are made when first needed, so that a broker with
// few ids costs little.
const pageEntries = 256

// Marks of an entry.
const (
	markPresent  = 1 << 2
	markReleased = 1 << 3
	markCarried  = 1 << 4 // its record was moved by Carry, so it was durable and acknowledged long ago
	markQoS      = 3
)

// slot is one packet id's entry: 24 bytes, 1.5 MiB when all 65,536 ids are in use.
type slot struct {
	hash  uint64
	pos   pipeline.Position
	count uint32 // table.count at the entry's own record; ages are differences modulo 2^32, W is far below
	mark  uint8
}

type page [pageEntries]slot

// table is the dedup table of one session, by packet id. Its owner guards it; see Session.mu.
type table struct {
	pages [256]*page
	// count is the number of message records of the session, negative history included: only differences matter.
	count int64
	// touched marks the ids seen on the present connection.
	touched [1024]uint64
	// fresh marks those of them that came with DUP=0: not from before the connection.
	fresh [1024]uint64
}

// at returns the slot of id, nil when its page was never needed.
func (t *table) at(id uint16) *slot {
	if p := t.pages[id>>8]; p != nil {
		return &p[id&0xff]
	}
	return nil
}

func (t *table) age(e *slot) int64 { return int64(uint32(t.count) - e.count) }

// lookup returns what the table holds under id.
func (t *table) lookup(id uint16) known {
	e := t.at(id)
	if e == nil || e.mark&markPresent == 0 {
		return known{}
	}
	return known{
		present: true, qos: e.mark & markQoS, hash: e.hash, pos: e.pos,
		age: t.age(e), released: e.mark&markReleased != 0, carried: e.mark&markCarried != 0,
	}
}

// message counts a message record and, for QoS 1 and 2, enters it under its id.
func (t *table) message(id uint16, qos uint8, hash uint64, pos pipeline.Position) {
	t.count++
	if qos != 0 {
		t.put(id, slot{hash: hash, pos: pos, count: uint32(t.count), mark: qos | markPresent})
	}
}

func (t *table) put(id uint16, e slot) {
	p := t.pages[id>>8]
	if p == nil {
		p = new(page)
		t.pages[id>>8] = p
	}
	p[id&0xff] = e
}

// live tells whether a PUBREL of id has something to release.
func (t *table) live(id uint16) bool {
	k := t.lookup(id)
	return k.present && k.qos == 2 && !k.released
}

// setReleased marks id released or takes the mark back. The entry stays (RULES 3).
func (t *table) setReleased(id uint16, released bool) {
	if e := t.at(id); e != nil {
		e.mark &^= markReleased
		if released {
			e.mark |= markReleased
		}
	}
}

// move notes that the entry's record was repeated at pos.
func (t *table) move(id uint16, pos pipeline.Position) {
	if e := t.at(id); e != nil {
		e.pos = pos
		e.mark |= markCarried
	}
}

func (t *table) drop(id uint16) {
	if e := t.at(id); e != nil {
		e.mark = 0
	}
}

// clear drops all entries: the broker has a fresh session.
func (t *table) clear() { t.pages = [256]*page{} }

func (t *table) touch(id uint16)           { t.touched[id>>6] |= 1 << (id & 63) }
func (t *table) wasTouched(id uint16) bool { return t.touched[id>>6]&(1<<(id&63)) != 0 }
func (t *table) isFresh(id uint16) bool    { return t.fresh[id>>6]&(1<<(id&63)) != 0 }
func (t *table) freshen(id uint16)         { t.fresh[id>>6] |= 1 << (id & 63) }
func (t *table) untouch()                  { t.touched, t.fresh = [1024]uint64{}, [1024]uint64{} }

// ids calls f for every id in use.
func (t *table) ids(f func(id uint16)) {
	for n, p := range t.pages {
		if p == nil {
			continue
		}
		for i := range p {
			if p[i].mark&markPresent != 0 {
				f(uint16(n<<8 | i))
			}
		}
	}
}

// keepOnly drops the entries that keep does not want and returns how many were dropped.
func (t *table) keepOnly(keep func(id uint16) bool) (dropped int) {
	t.ids(func(id uint16) {
		if !keep(id) {
			t.drop(id)
			dropped++
		}
	})
	return dropped
}

// worth tells whether an entry can still match anything (RULES 1, 3), so that it must outlive its segment.
func (t *table) worth(id uint16, sequential bool, w int64) bool {
	k := t.lookup(id)
	switch {
	case !k.present:
		return false
	case k.released:
		return sequential && k.age < w
	case k.qos == 2:
		return true
	}
	return k.age < w
}
