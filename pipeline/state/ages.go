package state

// ages counts the live entries of a table with TTL by the time of their last write, so that Len and MaxKeys are exact at
// every moment though the records of expired entries are reclaimed later. Times only rise, hence the counts are a queue;
// it is kept in pages with sums: when much expires at once, whole pages go.
type ages struct {
	pages []*agePage // none is empty but the last
}

type agePage struct {
	runs []run // by stamp, rising
	sum  int
	full int // runs with entries
}

type run struct {
	stamp int64
	n     int
}

const ageRuns = 512

// add counts an entry at stamp, which is not below any stamp before.
func (a *ages) add(stamp int64) {
	if len(a.pages) == 0 {
		a.pages = append(a.pages, &agePage{})
	}
	p := a.pages[len(a.pages)-1]
	if n := len(p.runs); n > 0 && p.runs[n-1].stamp == stamp {
		p.sum++
		if p.runs[n-1].n++; p.runs[n-1].n == 1 {
			p.full++
		}
		return
	}
	if len(p.runs) == ageRuns {
		a.squeeze(len(a.pages) - 1)
		if p = a.pages[len(a.pages)-1]; len(p.runs) > ageRuns/2 {
			p = &agePage{}
			a.pages = append(a.pages, p)
		}
	}
	p.runs = append(p.runs, run{stamp, 1})
	p.sum++
	p.full++
}

// remove takes back an entry counted at stamp that has not expired.
func (a *ages) remove(stamp int64) {
	lo, hi := 0, len(a.pages)-1 // the last page whose first stamp is at or below stamp
	for lo < hi {
		if m := (lo + hi + 1) / 2; len(a.pages[m].runs) > 0 && a.pages[m].runs[0].stamp <= stamp {
			lo = m
		} else {
			hi = m - 1
		}
	}
	p := a.pages[lo]
	i, end := 0, len(p.runs)
	for i < end {
		if m := (i + end) / 2; p.runs[m].stamp < stamp {
			i = m + 1
		} else {
			end = m
		}
	}
	p.sum--
	if p.runs[i].n--; p.runs[i].n == 0 {
		if p.full--; p.full < len(p.runs)/4 || p.full == 0 {
			a.squeeze(lo)
		}
	}
}

// squeeze drops the runs without entries from a page, and the page when none is left or the one before has room.
func (a *ages) squeeze(i int) {
	p := a.pages[i]
	last := i == len(a.pages)-1
	kept := p.runs[:0]
	if !last { // it will not grow: let the memory go
		kept = make([]run, 0, p.full)
	}
	for _, r := range p.runs {
		if r.n > 0 {
			kept = append(kept, r)
		}
	}
	p.runs = kept
	if i > 0 && !last && len(a.pages[i-1].runs)+len(kept) <= ageRuns/2 {
		q := a.pages[i-1]
		q.runs = append(q.runs, kept...)
		q.sum += p.sum
		q.full += p.full
		p.full = 0
	}
	if p.full == 0 && !last {
		a.pages = append(a.pages[:i], a.pages[i+1:]...)
	}
}

// expire takes out everything at or below limit and tells how many entries that were.
func (a *ages) expire(limit int64) (n int) {
	for len(a.pages) > 0 {
		p := a.pages[0]
		if len(p.runs) == 0 {
			return n // only the last page can be empty
		}
		if p.runs[0].stamp > limit {
			return n
		}
		if p.runs[len(p.runs)-1].stamp <= limit {
			n += p.sum
			a.pages = a.pages[1:]
			continue
		}
		i := 0
		for ; p.runs[i].stamp <= limit; i++ {
			n += p.runs[i].n
			p.sum -= p.runs[i].n
			if p.runs[i].n > 0 {
				p.full--
			}
		}
		p.runs = p.runs[i:]
	}
	return n
}
