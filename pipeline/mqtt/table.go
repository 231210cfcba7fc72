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

// page holds its columns apart: 25 bytes an entry, 1.6 MiB when all 65,536 ids are in use.
type page struct {
	hash  [pageEntries]uint64
	pos   [pageEntries]pipeline.Position
	count [pageEntries]int64 // message records of the session up to and including the entry's own
	mark  [pageEntries]uint8
}

// table is the dedup table of one session, by packet id. Its owner guards it; see Session.mu.
type table struct {
	pages [256]*page
	// count is the number of message records of the session, negative history included: only differences matter.
	count int64
	// touched marks the ids seen on the present connection.
	touched [1024]uint64
}

func (t *table) at(id uint16) (p *page, i int) { return t.pages[id>>8], int(id & 0xff) }

// lookup returns what the table holds under id.
func (t *table) lookup(id uint16) known {
	p, i := t.at(id)
	if p == nil || p.mark[i]&markPresent == 0 {
		return known{}
	}
	return known{
		present: true, qos: p.mark[i] & markQoS, hash: p.hash[i],
		age: t.count - p.count[i], released: p.mark[i]&markReleased != 0, carried: p.mark[i]&markCarried != 0,
	}
}

// position is that of the entry's record.
func (t *table) position(id uint16) pipeline.Position {
	p, i := t.at(id)
	if p == nil {
		return 0
	}
	return p.pos[i]
}

// message counts a message record and, for QoS 1 and 2, enters it under its id.
func (t *table) message(id uint16, qos uint8, hash uint64, pos pipeline.Position) {
	t.count++
	if qos != 0 {
		t.put(id, entry{qos: qos, hash: hash, count: t.count, pos: pos})
	}
}

// entry is one row of the table.
type entry struct {
	qos      uint8
	released bool
	hash     uint64
	count    int64
	pos      pipeline.Position
}

func (t *table) put(id uint16, e entry) {
	p := t.pages[id>>8]
	if p == nil {
		p = new(page)
		t.pages[id>>8] = p
	}
	i := int(id & 0xff)
	p.hash[i], p.pos[i], p.count[i], p.mark[i] = e.hash, e.pos, e.count, e.qos|markPresent
	if e.released {
		p.mark[i] |= markReleased
	}
}

// live tells whether a PUBREL of id has something to release.
func (t *table) live(id uint16) bool {
	k := t.lookup(id)
	return k.present && k.qos == 2 && !k.released
}

// setReleased marks id released or takes the mark back. The entry stays (RULES 3).
func (t *table) setReleased(id uint16, released bool) {
	if p, i := t.at(id); p != nil {
		p.mark[i] &^= markReleased
		if released {
			p.mark[i] |= markReleased
		}
	}
}

// move notes that the entry's record was repeated at pos.
func (t *table) move(id uint16, pos pipeline.Position) {
	if p, i := t.at(id); p != nil {
		p.pos[i] = pos
		p.mark[i] |= markCarried
	}
}

func (t *table) drop(id uint16) {
	if p, i := t.at(id); p != nil {
		p.mark[i] = 0
	}
}

// clear drops all entries: the broker has a fresh session.
func (t *table) clear() {
	for _, p := range t.pages {
		if p != nil {
			clear(p.mark[:])
		}
	}
}

func (t *table) touch(id uint16)           { t.touched[id>>6] |= 1 << (id & 63) }
func (t *table) wasTouched(id uint16) bool { return t.touched[id>>6]&(1<<(id&63)) != 0 }
func (t *table) untouch()                  { t.touched = [1024]uint64{} }

// ids calls f for every id in use.
func (t *table) ids(f func(id uint16)) {
	for n, p := range t.pages {
		if p == nil {
			continue
		}
		for i, m := range p.mark {
			if m&markPresent != 0 {
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
