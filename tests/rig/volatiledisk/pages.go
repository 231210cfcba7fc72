package volatiledisk

// eachPage calls f for each page that n bytes at off touch: bytes from to to of page number, which are those at at of the n.
func eachPage(off, n int64, f func(number, from, to, at int64)) {
	for at := int64(0); at < n; {
		number, from := (off+at)/pageBytes, (off+at)%pageBytes
		to := min(pageBytes, from+n-at)
		f(number, from, to, at)
		at += to - from
	}
}

func readPage(p []byte, from *page, at int64) {
	if from == nil {
		clear(p)
		return
	}
	copy(p, from[at:])
}

// visible is page n as reads see it. nil: zeros.
func (d *Disk) visible(n int64) *page {
	if p, ok := d.fresh[n]; ok {
		return p
	}
	return d.durable[n]
}

// changed is page n, of fresh and free to be changed.
func (d *Disk) changed(n int64) *page {
	if p := d.fresh[n]; p != nil {
		return p
	}
	p := new(page)
	if old := d.visible(n); old != nil {
		*p = *old
	}
	d.fresh[n] = p
	return p
}

// zero does what r, a request of zeros, does to what reads see. Pages that have no content stay without.
func (d *Disk) zero(r request) {
	eachPage(r.offset, r.length, func(n, from, to, _ int64) {
		switch {
		case d.visible(n) == nil:
		case to-from == pageBytes:
			d.fresh[n] = nil
		default:
			clear(d.changed(n)[from:to])
		}
	})
}

// settle makes r durable by itself. Of older requests that are pending, its sectors are taken out: the cache has one content per sector, and will not write the
// older one over the newer.
func (d *Disk) settle(r request) {
	if d.planted != durableIsOverwritten {
		var left []request
		for _, old := range d.pending {
			left = append(left, without(old, r.offset, r.offset+r.length)...)
		}
		d.pending = left
	}
	applyTo(d.durable, r)
	eachPage(r.offset, r.length, func(n, from, to, at int64) {
		if _, differs := d.fresh[n]; differs {
			copy(d.changed(n)[from:to], r.data[at:])
		}
	})
}

// without is what is left of r outside of from to to.
func without(r request, from, to int64) []request {
	end := r.offset + r.length
	if to <= r.offset || end <= from {
		return []request{r}
	}
	var left []request
	if r.offset < from {
		left = append(left, part(r, 0, from-r.offset))
	}
	if to < end {
		left = append(left, part(r, to-r.offset, r.length))
	}
	return left
}

// part is bytes from to to of r.
func part(r request, from, to int64) request {
	p := request{offset: r.offset + from, length: to - from}
	if r.data != nil {
		p.data = r.data[from:to]
	}
	return p
}

// apply writes r into the pages that at gives.
func apply(r request, at func(n int64) *page) {
	eachPage(r.offset, r.length, func(n, from, to, i int64) {
		copy(at(n)[from:to], r.data[i:i+to-from])
	})
}

// applyTo writes r into pages that others may share: each page that changes is a new one.
func applyTo(pages map[int64]*page, r request) {
	eachPage(r.offset, r.length, func(n, from, to, i int64) {
		p, old := new(page), pages[n]
		if old == nil && r.data == nil {
			return
		}
		if old != nil {
			*p = *old
		}
		if r.data == nil {
			clear(p[from:to])
		} else {
			copy(p[from:to], r.data[i:])
		}
		keep(pages, n, p)
	})
}

// keep puts page n among pages, where one that is nil or zero takes no memory.
func keep(pages map[int64]*page, n int64, p *page) {
	if p == nil || *p == (page{}) {
		delete(pages, n)
		return
	}
	pages[n] = p
}
