package state

// Limit makes MaxKeys one limit over the tables of all instances of a step. Between batches the engine says how the next one is worked on:
// Apart, when no row of it can meet the limit, or Together, when one goroutine works through it row by row over all instances.
type Limit struct {
	tables   []*Table
	max      int
	together bool
}

// NewLimit joins the tables of one name, one per instance, all with the same MaxKeys > 0.
func NewLimit(tables []*Table) *Limit {
	l := &Limit{tables: tables, max: tables[0].spec.MaxKeys}
	for _, t := range tables {
		t.limit = l
	}
	return l
}

// Apart prepares for a batch in which instance i gets rows[i] rows, each of which makes one entry at most, and the instances run side
// by side. It gives false, and nothing is prepared, when the limit might be met: then the batch is to be worked on Together. No
// instance may be at work.
func (l *Limit) Apart(rows []int) bool {
	free := l.max
	for i, t := range l.tables {
		free -= t.most() + rows[i]
	}
	if free < 0 {
		return false
	}
	l.together = false
	for i, t := range l.tables {
		t.ceiling = t.most() + rows[i] + free/len(l.tables)
	}
	return true
}

// most is Len or more: it costs nothing.
func (t *Table) most() int {
	if LargeBuilt && t.large != nil {
		return t.large.live
	}
	if LargeBuilt && t.far != nil {
		t.far.settle()
		return t.far.newest.large.live
	}
	return t.live
}

// Together prepares for a batch that one goroutine works through in the total order. It holds the locks of all tables meanwhile.
func (l *Limit) Together() { l.together = true }

// full tells whether a new key would be one too many. Whatever makes an entry asks it.
func (t *Table) full() bool {
	switch {
	case t.spec.MaxKeys == 0:
		return false
	case t.limit == nil:
		return t.Len() >= t.spec.MaxKeys
	case !t.limit.together:
		if t.most() >= t.ceiling {
			panic("BUG: state table " + t.spec.Name + ": a keyed step makes more than one entry per row")
		}
		return false
	}
	n := 0
	for _, other := range t.limit.tables {
		other.SetNow(t.now) // what has expired in one table has in all
		n += other.Len()
	}
	return n >= t.limit.max
}
