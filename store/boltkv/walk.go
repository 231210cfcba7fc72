package boltkv

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
)

// bbolt maps the file and follows page numbers without checking them: a short file is a SIGBUS, a bad page a panic in a
// goroutine of its own at Open (freelist rebuild). Neither can be caught. So the tree is walked here first, with ReadAt and
// every number checked. What bbolt would touch at Open is what is read; of values only the lengths.

const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2
	pageHeader  = 16
	elemBytes   = 16
	metaBytes   = 64

	flagBranch = 0x01
	flagLeaf   = 0x02
	flagList   = 0x10
	leafBucket = 0x01

	depthMax    = 64
	pageSizeMin = 512
	pageSizeMax = 1 << 16
	listNone    = ^uint64(0) // the freelist is not synced
)

type meta struct {
	pageSize           uint32
	root, list, pageHi uint64
	txid               uint64
}

// walker checks one file. seen has one bit per page.
type walker struct {
	r    io.ReaderAt
	m    meta
	seen []uint64
}

// walk tells whether a file of size bytes is a whole bbolt database.
func walk(r io.ReaderAt, size int64) error {
	m, err := newestMeta(r, size)
	if err != nil {
		return err
	}
	if m.pageHi < 4 || m.pageHi > uint64(size)/uint64(m.pageSize) {
		return fmt.Errorf("%d pages in a file of %d bytes: %w", m.pageHi, size, ErrCorrupt)
	}
	w := &walker{r: r, m: m, seen: make([]uint64, m.pageHi/64+1)}
	w.seen[0] = 3 // the two meta pages
	if m.list != listNone {
		if _, err := w.page(m.list, flagList); err != nil {
			return err
		}
	}
	return w.tree(m.root, nil, nil, 0)
}

// newestMeta reads both meta pages as bbolt does: the valid one with the higher transaction wins, one may be torn.
func newestMeta(r io.ReaderAt, size int64) (meta, error) {
	var best meta
	found := false
	try := func(off int64) {
		b := make([]byte, pageHeader+metaBytes)
		if _, err := r.ReadAt(b, off); err != nil {
			return
		}
		m, ok := decodeMeta(b[pageHeader:])
		if ok && (!found || m.txid > best.txid) && (off == 0 || off == int64(m.pageSize)) {
			best, found = m, true
		}
	}
	try(0)
	if found {
		try(int64(best.pageSize))
	} else {
		for s := int64(pageSizeMin); s <= pageSizeMax; s *= 2 {
			try(s)
		}
	}
	if !found {
		return best, fmt.Errorf("no valid meta page in %d bytes: %w", size, ErrCorrupt)
	}
	return best, nil
}

func decodeMeta(b []byte) (meta, bool) {
	le := binary.LittleEndian
	m := meta{pageSize: le.Uint32(b[8:]), root: le.Uint64(b[16:]), list: le.Uint64(b[32:]), pageHi: le.Uint64(b[40:]), txid: le.Uint64(b[48:])}
	sum := fnv.New64a()
	sum.Write(b[:56])
	ok := le.Uint32(b) == boltMagic && le.Uint32(b[4:]) == boltVersion && sum.Sum64() == le.Uint64(b[56:]) &&
		m.pageSize >= pageSizeMin && m.pageSize <= pageSizeMax && m.pageSize&(m.pageSize-1) == 0
	return m, ok
}

// page reads a page with its overflow, once.
func (w *walker) page(id uint64, flags uint16) ([]byte, error) {
	if id < 2 || id >= w.m.pageHi {
		return nil, fmt.Errorf("page %d of %d: %w", id, w.m.pageHi, ErrCorrupt)
	}
	h := make([]byte, pageHeader)
	if _, err := w.r.ReadAt(h, int64(id)*int64(w.m.pageSize)); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	got, over := binary.LittleEndian.Uint16(h[8:]), uint64(binary.LittleEndian.Uint32(h[12:]))
	if binary.LittleEndian.Uint64(h) != id || got&flags == 0 || got&^flags != 0 {
		return nil, fmt.Errorf("page %d calls itself %d, flags %#x: %w", id, binary.LittleEndian.Uint64(h), got, ErrCorrupt)
	}
	if over >= w.m.pageHi-id {
		return nil, fmt.Errorf("page %d overflows by %d of %d: %w", id, over, w.m.pageHi, ErrCorrupt)
	}
	for i := id; i <= id+over; i++ {
		if w.seen[i/64]&(1<<(i%64)) != 0 {
			return nil, fmt.Errorf("page %d is referenced twice: %w", i, ErrCorrupt)
		}
		w.seen[i/64] |= 1 << (i % 64)
	}
	b := make([]byte, (over+1)*uint64(w.m.pageSize))
	if _, err := w.r.ReadAt(b, int64(id)*int64(w.m.pageSize)); err != nil {
		return nil, fmt.Errorf("read page %d: %w", id, err)
	}
	if flags == flagList {
		return b, nil
	}
	if n := int(binary.LittleEndian.Uint16(b[10:])); pageHeader+n*elemBytes > len(b) {
		return nil, fmt.Errorf("page %d holds %d elements: %w", id, n, ErrCorrupt)
	}
	return b, nil
}

// tree checks a subtree whose keys lie in [low, high); nil high: no bound.
func (w *walker) tree(id uint64, low, high []byte, depth int) error {
	if depth > depthMax {
		return fmt.Errorf("page %d lies %d deep: %w", id, depth, ErrCorrupt)
	}
	b, err := w.page(id, flagBranch|flagLeaf)
	if err != nil {
		return err
	}
	if binary.LittleEndian.Uint16(b[8:]) == flagLeaf {
		return w.leaf(b, low, high, depth)
	}
	n := int(binary.LittleEndian.Uint16(b[10:]))
	if n == 0 {
		return fmt.Errorf("page %d: branch without elements: %w", id, ErrCorrupt)
	}
	keys, kids := make([][]byte, n), make([]uint64, n)
	for i := range n {
		e := b[pageHeader+i*elemBytes:]
		at := uint64(pageHeader+i*elemBytes) + uint64(binary.LittleEndian.Uint32(e))
		size := uint64(binary.LittleEndian.Uint32(e[4:]))
		if at+size > uint64(len(b)) {
			return fmt.Errorf("page %d: element %d: %w", id, i, ErrCorrupt)
		}
		keys[i], kids[i] = b[at:at+size], binary.LittleEndian.Uint64(e[8:])
		if bytes.Compare(keys[i], low) < 0 || i > 0 && bytes.Compare(keys[i], keys[i-1]) <= 0 || high != nil && bytes.Compare(keys[i], high) >= 0 {
			return fmt.Errorf("page %d: order of element %d: %w", id, i, ErrCorrupt)
		}
	}
	for i := range n {
		end := high
		if i+1 < n {
			end = keys[i+1]
		}
		if err := w.tree(kids[i], keys[i], end, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// leaf checks the elements of a leaf page (or of an inline bucket) and the buckets in it.
func (w *walker) leaf(b []byte, low, high []byte, depth int) error {
	n := int(binary.LittleEndian.Uint16(b[10:]))
	id := binary.LittleEndian.Uint64(b)
	var prev []byte
	for i := range n {
		e := b[pageHeader+i*elemBytes:]
		at := uint64(pageHeader+i*elemBytes) + uint64(binary.LittleEndian.Uint32(e[4:]))
		ksize, vsize := uint64(binary.LittleEndian.Uint32(e[8:])), uint64(binary.LittleEndian.Uint32(e[12:]))
		if at+ksize+vsize > uint64(len(b)) {
			return fmt.Errorf("page %d: element %d: %w", id, i, ErrCorrupt)
		}
		key, val := b[at:at+ksize], b[at+ksize:at+ksize+vsize]
		if bytes.Compare(key, low) < 0 || i > 0 && bytes.Compare(key, prev) <= 0 || high != nil && bytes.Compare(key, high) >= 0 {
			return fmt.Errorf("page %d: order of element %d: %w", id, i, ErrCorrupt)
		}
		prev = key
		if binary.LittleEndian.Uint32(e)&leafBucket != 0 {
			if err := w.bucket(id, val, depth); err != nil {
				return err
			}
		}
	}
	return nil
}

// bucket checks a nested bucket: a root page, or a leaf inline in the value.
func (w *walker) bucket(id uint64, val []byte, depth int) error {
	if len(val) < 16 {
		return fmt.Errorf("page %d: bucket of %d bytes: %w", id, len(val), ErrCorrupt)
	}
	if root := binary.LittleEndian.Uint64(val); root != 0 {
		return w.tree(root, nil, nil, depth+1)
	}
	in := val[16:]
	if len(in) < pageHeader || binary.LittleEndian.Uint16(in[8:]) != flagLeaf ||
		pageHeader+int(binary.LittleEndian.Uint16(in[10:]))*elemBytes > len(in) {
		return fmt.Errorf("page %d: inline bucket: %w", id, ErrCorrupt)
	}
	return w.leaf(in, nil, nil, depth+1)
}
