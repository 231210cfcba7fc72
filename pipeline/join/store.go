package join

import (
	"bytes"
	"cmp"
	"slices"
	"sort"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// store holds the rows of both inputs: their bytes in the table, their order in memory.
type store struct {
	table  *state.Table
	groups map[string]*group
	agenda agenda
	widths [2]int // slots kept of each input
	ttl    int64  // elapsed ns from arrival; 0: never
	stays  []stay
	entry  []byte
	sub    []byte
	fault  fault
}

// fault is a mistake planted by a test, to show that the tests would find it.
type fault struct {
	forgetsPartners bool // that a row had a partner is not written to the table
	exclusive       bool // the farthest instant of a partner does not count
	early           bool // rows are let go one instant too soon
	unsorted        bool // partners come in the order of arrival
	forgetsDue      bool // far: when rows are due is not restored
	forgetsFar      bool // far: that a row had a partner is not written to the table
	forgetsSpans    bool // far: sessions that become one are not forgotten
}

// stay is a row in the order of arrival, for the ttl.
type stay struct {
	g    *group
	side int
	row  held
}

func newStore(sides [2]Side, ttl int64) store {
	return store{groups: map[string]*group{}, widths: [2]int{len(sides[Left].Keep), len(sides[Right].Keep)}, ttl: ttl}
}

func (s *store) open(tables pipeline.Tables, maxKeys int) (err error) {
	s.table, err = tables.Table(state.Spec{Name: "rows", Kind: state.Map, Type: "join.row", Version: 1, MaxKeys: maxKeys})
	return err
}

// restored rebuilds the order; the groups are not due anywhere yet.
func (s *store) restored() (err error) {
	scratch := pipeline.NewOut("", 0)
	scratch.Reuse = true
	s.table.Range(func(key, sub, val []byte) bool {
		side, h, bad := s.parse(sub, val, scratch)
		if err = bad; err != nil {
			return false
		}
		g := s.group(key)
		g.rows[side] = append(g.rows[side], h)
		g.number(h)
		if s.ttl > 0 {
			s.stays = append(s.stays, stay{g, side, h})
		}
		return true
	})
	for _, g := range s.groups {
		for _, rows := range g.rows {
			if len(rows) > 1 {
				sort.Slice(rows, func(i, j int) bool { return rows[i].compare(rows[j]) < 0 })
			}
		}
	}
	sort.Slice(s.stays, func(i, j int) bool {
		a, b := &s.stays[i].row, &s.stays[j].row
		return cmp.Or(cmp.Compare(a.came, b.came), cmp.Compare(a.pos, b.pos), cmp.Compare(a.index, b.index)) < 0
	})
	return err
}

// number notes that a row of that place is there: the next of its position is behind it.
func (g *group) number(h held) {
	if h.pos > g.lastPos || h.pos == g.lastPos && h.index >= g.lastIndex {
		g.lastPos, g.lastIndex = h.pos, h.index+1
	}
}

// group gives the group of a key, making it when there is none.
func (s *store) group(key []byte) *group {
	if g := s.groups[string(key)]; g != nil {
		return g
	}
	g := &group{key: slices.Clone(key), place: -1}
	s.groups[string(key)] = g
	return g
}

// add holds a row. It fails with state.ErrMaxKeys only, and changes nothing then. The caller settles the group.
func (s *store) add(key []byte, side int, r *pipeline.Row, values []pipeline.Value, matched bool, elapsed int64) (*group, error) {
	h := held{time: r.Time, pos: r.Pos, matched: matched, came: elapsed}
	if g := s.groups[string(key)]; g != nil && g.lastPos == r.Pos {
		h.index = g.lastIndex
	}
	s.sub = appendSub(s.sub[:0], side, h)
	stored := h
	stored.matched = matched && !s.fault.forgetsPartners
	s.entry = pipeline.AppendSlots(appendHead(s.entry[:0], stored, s.ttl > 0), values)
	if err := s.table.PutSub(key, s.sub, s.entry); err != nil {
		return nil, err
	}
	g := s.group(key)
	g.number(h)
	rows := g.rows[side]
	at := len(rows)
	if at > 0 && h.compare(rows[at-1]) < 0 {
		at, _ = slices.BinarySearchFunc(rows, h, held.compare)
	}
	if s.fault.unsorted {
		at = len(rows)
	}
	g.rows[side] = slices.Insert(rows, at, h)
	if s.ttl > 0 {
		s.stays = append(s.stays, stay{g, side, h})
	}
	return g, nil
}

// values reads a row held.
func (s *store) values(g *group, side, i int, out *pipeline.Out) []pipeline.Value {
	s.sub = appendSub(s.sub[:0], side, g.rows[side][i])
	val, ok := s.table.GetSub(g.key, s.sub)
	if !ok {
		panic("BUG: a row is in order that the table does not hold")
	}
	_, _, slots, err := parseHeld(s.sub, val)
	if err != nil {
		panic("BUG: a held row is not readable: " + err.Error())
	}
	values, err := out.ParseSlots(slots)
	if err != nil {
		panic("BUG: a held row is not readable: " + err.Error())
	}
	return values
}

// match notes that a row has a partner.
func (s *store) match(g *group, side, i int) {
	h := &g.rows[side][i]
	if h.matched {
		return
	}
	h.matched = true
	if s.fault.forgetsPartners {
		return
	}
	s.sub = appendSub(s.sub[:0], side, *h)
	val, ok := s.table.GetSub(g.key, s.sub)
	if !ok {
		panic("BUG: a row is in order that the table does not hold")
	}
	s.entry = append(s.entry[:0], val...)
	s.entry[0] |= flagMatched
	if err := s.table.PutSub(g.key, s.sub, s.entry); err != nil {
		panic("BUG: a row that is there cannot be one too many: " + err.Error())
	}
}

// cut lets the rows [from, to) of an input go.
func (s *store) cut(g *group, side, from, to int) {
	for _, h := range g.rows[side][from:to] {
		s.sub = appendSub(s.sub[:0], side, h)
		s.table.DeleteSub(g.key, s.sub)
	}
	if rows := g.rows[side]; from == 0 && len(rows)-to > fewRows {
		g.rows[side] = rows[to:]
		return
	}
	g.rows[side] = slices.Delete(g.rows[side], from, to)
}

// fewRows is how many rows are moved to the front rather than left where they are: it costs less than a new list now and then.
const fewRows = 32

// settle puts a group to its place in the agenda; one without rows is forgotten.
func (s *store) settle(g *group, due, start int64) {
	g.due, g.start = due, start
	switch {
	case g.empty():
		if g.place >= 0 {
			s.agenda.remove(g)
		}
		delete(s.groups, string(g.key))
	case g.place < 0:
		s.agenda.push(g)
	default:
		s.agenda.fix(g)
	}
}

// next gives the group that is due first at a watermark, nil when none is.
func (s *store) next(watermark int64) *group {
	if len(s.agenda) == 0 || s.agenda[0].due > watermark {
		return nil
	}
	return s.agenda[0]
}

// deadline is the watermark at which something happens next.
func (s *store) deadline() int64 {
	if len(s.agenda) == 0 {
		return pipeline.NoDeadline
	}
	return s.agenda[0].due
}

// expiring is the elapsed ns at which the ttl of a row is over next.
func (s *store) expiring() int64 {
	n := 0
	for ; n < len(s.stays); n++ {
		if at := &s.stays[n]; at.g.find(at.side, at.row) >= 0 {
			break
		}
	}
	s.forget(n)
	if len(s.stays) == 0 {
		return pipeline.NoDeadline
	}
	return s.stays[0].row.came + s.ttl
}

// expired takes the rows whose ttl is over at the same, earliest time out of the order of arrival, by (key bytes, input, time, arrival). They
// are held still; some may have gone before.
func (s *store) expired() []stay {
	n := 1
	for n < len(s.stays) && s.stays[n].row.came == s.stays[0].row.came {
		n++
	}
	all := slices.Clone(s.stays[:n])
	s.forget(n)
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(bytes.Compare(a.g.key, b.g.key), cmp.Compare(a.side, b.side), a.row.compare(b.row)) < 0
	})
	return all
}

func (s *store) forget(n int) {
	clear(s.stays[:n]) // the groups may be collected
	s.stays = s.stays[n:]
}

// find gives the index of a row, -1 when it is no longer there.
func (g *group) find(side int, row held) int {
	i, found := slices.BinarySearchFunc(g.rows[side], row, held.compare)
	if !found {
		return -1
	}
	return i
}
