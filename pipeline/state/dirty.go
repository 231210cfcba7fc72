package state

// dirtyList names the entries that changed, in the order of their first change. An entry is named validly by one list at
// most: the one it points at (entry.list, entry.pos); items that an entry has left are skipped.
type dirtyList struct {
	id    uint32 // rises; never used again
	pages [][]item
	n     int     // items
	valid int     // items that their entry still points at
	done  int     // items the checkpoint has encoded
	gen   *Frozen // checkpoint that holds the list; nil: it belongs to the open generation
	dead  int     // tombstones among the items, at most: 0 spares Commit the walk
}

// item is one changed entry. When it changes again before its checkpoint has encoded it, the item keeps the old version
// instead: kept is then the number of that checkpoint and ref a record in its arena.
type item struct {
	ref  uint32 // entry, or record in the arena
	kept uint32 // 0: ref is an entry
}

const (
	itemPageBits = 12
	itemPageMask = 1<<itemPageBits - 1
)

func (l *dirtyList) item(i int) *item { return &l.pages[i>>itemPageBits][i&itemPageMask] }

func (l *dirtyList) add(id uint32) uint32 {
	p := l.n >> itemPageBits
	if p == len(l.pages) {
		l.pages = append(l.pages, nil)
	}
	if p == 0 { // the first page grows: small lists are small
		l.pages[0] = append(l.pages[0], item{ref: id})
	} else {
		if l.pages[p] == nil {
			l.pages[p] = make([]item, 0, 1<<itemPageBits)
		}
		l.pages[p] = append(l.pages[p], item{ref: id})
	}
	l.n++
	l.valid++
	return uint32(l.n - 1)
}

// touch is called before every change of an existing entry: it keeps the old version when a checkpoint still needs it,
// and puts the entry on the open list.
func (t *Table) touch(e *entry, id uint32) {
	if e.list == t.own.id || t.untracked {
		return
	}
	if l := t.listOf(e.list); l != nil {
		if l.gen == nil {
			return // on a list that an aborted checkpoint gave back
		}
		l.valid--
		if int(e.pos) >= l.done {
			*l.item(int(e.pos)) = item{ref: l.gen.keep(t.slab.at(e.ref)), kept: l.gen.number}
		}
	}
	e.list, e.pos = t.own.id, t.own.add(id)
}

// listOf finds a list that is open or held by a checkpoint. There are few: one for each checkpoint under way and for
// each aborted one that is not merged yet.
func (t *Table) listOf(id uint32) *dirtyList {
	for i := len(t.lists) - 1; i >= 0; i-- {
		if t.lists[i].id == id {
			return t.lists[i]
		}
	}
	return nil
}

// openList starts the list of a new generation.
func (t *Table) openList() {
	t.listLast++
	t.own = &dirtyList{id: t.listLast}
	t.lists = append(t.lists, t.own)
}

// forgetList takes a list out of those that touch looks at. Its items stay readable.
func (t *Table) forgetList(l *dirtyList) {
	for i := range t.lists {
		if t.lists[i] == l {
			t.lists = append(t.lists[:i:i], t.lists[i+1:]...)
			return
		}
	}
}

// mergeStep moves up to n items of the oldest list that was given back to the own list, and tells whether any are left.
func (t *Table) mergeStep(n int) bool {
	var l *dirtyList
	for _, x := range t.lists {
		if x.gen == nil && x != t.own {
			l = x
			break
		}
	}
	if l == nil {
		return false
	}
	for ; n > 0 && l.done < l.n; n-- {
		if it := l.item(l.done); it.kept == 0 {
			if e := t.index.entry(it.ref); e.list == l.id && int(e.pos) == l.done {
				e.list, e.pos = t.own.id, t.own.add(it.ref)
				l.valid--
				if l.dead > 0 && dead(t.slab.at(e.ref)) {
					t.own.dead++
				}
			}
		}
		l.done++
	}
	if l.done == l.n {
		t.forgetList(l)
	}
	return true
}
