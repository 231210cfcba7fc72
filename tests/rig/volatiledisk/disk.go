// Package volatiledisk models a disk of 512-byte sectors with a volatile write cache, in memory and without any I/O.
//
// What was written is seen by every read at once, and survives a power cut only when a Flush began after the write had returned (or when the write itself was
// durable, as a FUA request is). A cut decides about the rest: each request that was not flushed may be there, may be gone, or may be there in some of its
// sectors, whatever became of the requests before it. A sector is never torn. That is what the NVM, ATA and SD specifications promise, and no more.
//
// A server (NBD, FUSE) in front of a Disk makes it a block device. All methods may be called by any number of goroutines.
package volatiledisk

import (
	"fmt"
	"sync"
)

// SectorBytes is the unit of a write: whole or not at all.
const SectorBytes = 512

// pageBytes is the unit in which content is kept. Pages that were never written take no memory.
const pageBytes = 4096

type page [pageBytes]byte

// A request is a write that is not durable yet. data nil: length zeros.
type request struct {
	offset, length int64
	data           []byte
}

// Disk is a disk that has power until Cut. The zero value is of no use: New, Load or FromImage.
type Disk struct {
	size int64

	mu sync.Mutex
	// durable survives each cut. Its pages are never changed in place, so that an image shares them.
	durable map[int64]*page
	// fresh has the pages that differ from durable, as reads see them. nil: zeros.
	fresh   map[int64]*page
	pending []request
	cut     bool
	count   Counters

	planted fault
}

// Counters tell what a disk was asked for since it was made.
type Counters struct {
	Reads, Writes, Flushes, Zeros int64 // requests answered; Writes includes the durable ones
	Durable                       int64 // of Writes: durable by themselves (FUA)
	Bytes                         int64 // of Writes
	Unflushed, UnflushedBytes     int64 // requests and bytes that a cut could take now
}

// New makes a disk of size bytes, all zero. A size that is not in whole sectors is a mistake of the caller.
func New(size int64) *Disk {
	if size <= 0 || size%SectorBytes != 0 {
		panic(fmt.Sprintf("BUG: a disk of %d bytes: whole sectors of %d are asked for", size, SectorBytes))
	}
	return &Disk{size: size, durable: map[int64]*page{}, fresh: map[int64]*page{}}
}

// Size is in bytes.
func (d *Disk) Size() int64 { return d.size }

// ReadAt fills p with what was written last, durable or not. Any offset and length within the disk.
func (d *Disk) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off > d.size || int64(len(p)) > d.size-off {
		return 0, fmt.Errorf("read %d bytes at %d of a disk of %d: %w", len(p), off, d.size, ErrRange)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cut {
		return 0, ErrCut
	}
	d.count.Reads++
	eachPage(off, int64(len(p)), func(n, from, to, at int64) {
		readPage(p[at:at+to-from], d.visible(n), from)
	})
	return len(p), nil
}

// WriteAt writes whole sectors into the cache: seen at once, durable with the next Flush. The disk keeps a copy of p.
func (d *Disk) WriteAt(p []byte, off int64) (int, error) {
	return d.write(p, off, false)
}

// WriteDurable is WriteAt for a request with FUA: durable when it returns, and with it nothing of what was written before elsewhere.
func (d *Disk) WriteDurable(p []byte, off int64) (int, error) {
	return d.write(p, off, true)
}

func (d *Disk) write(p []byte, off int64, durable bool) (int, error) {
	if err := d.whole("write", off, int64(len(p))); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cut {
		return 0, ErrCut
	}
	d.count.Writes++
	d.count.Bytes += int64(len(p))
	r := request{offset: off, length: int64(len(p)), data: p}
	if durable {
		d.count.Durable++
		d.settle(r)
		return len(p), nil
	}
	r.data = append([]byte(nil), p...)
	apply(r, d.changed)
	d.pending = append(d.pending, r)
	return len(p), nil
}

// Zero makes n bytes at off zeros, as volatile as a write. Whole sectors.
func (d *Disk) Zero(off, n int64) error {
	if err := d.whole("zero", off, n); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cut {
		return ErrCut
	}
	d.count.Zeros++
	r := request{offset: off, length: n}
	d.zero(r)
	d.pending = append(d.pending, r)
	return nil
}

// Trim says that the content of n bytes at off is of no use. This disk reads zeros there, and like every write that is only durable with a Flush.
func (d *Disk) Trim(off, n int64) error { return d.Zero(off, n) }

// Flush makes durable what was written before. Repeating it is harmless.
func (d *Disk) Flush() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cut {
		return ErrCut
	}
	d.count.Flushes++
	if d.planted == flushForgets && len(d.pending) > 1 {
		last := d.pending[len(d.pending)-1]
		d.pending = d.pending[:len(d.pending)-1]
		for _, r := range d.pending {
			applyTo(d.durable, r)
		}
		d.pending = append(d.pending[:0], last)
		return nil
	}
	for n, p := range d.fresh {
		keep(d.durable, n, p)
	}
	clear(d.fresh)
	clear(d.pending)
	d.pending = d.pending[:0]
	return nil
}

// Counters are of this instant.
func (d *Disk) Counters() Counters {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.count
	c.Unflushed = int64(len(d.pending))
	for _, r := range d.pending {
		c.UnflushedBytes += r.length
	}
	return c
}

func (d *Disk) whole(what string, off, n int64) error {
	if off < 0 || n < 0 || off > d.size || n > d.size-off {
		return fmt.Errorf("%s %d bytes at %d of a disk of %d: %w", what, n, off, d.size, ErrRange)
	}
	if off%SectorBytes != 0 || n%SectorBytes != 0 {
		return fmt.Errorf("%s %d bytes at %d: %w", what, n, off, ErrUnaligned)
	}
	return nil
}
