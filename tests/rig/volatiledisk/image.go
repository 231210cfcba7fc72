package volatiledisk

import (
	"fmt"
	"io"
	"maps"
	"slices"
)

// Image is the content of a disk without power. It does not change, and shares memory with the disk that it was taken of and with those that are made of it.
type Image struct {
	size  int64
	pages map[int64]*page
}

// FromImage is the disk of img with power again, everything on it durable. Any number of disks may be made of one image.
func FromImage(img *Image) *Disk {
	d := New(img.size)
	d.durable = maps.Clone(img.pages)
	return d
}

// Load makes a disk of size bytes with what r holds, everything on it durable. r may be shorter: the rest is zeros.
func Load(r io.ReaderAt, size int64) (*Disk, error) {
	d := New(size)
	chunk := make([]byte, 256*pageBytes)
	for off := int64(0); off < size; off += int64(len(chunk)) {
		n, err := r.ReadAt(chunk[:min(int64(len(chunk)), size-off)], off)
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("load a disk at %d: %w", off, err)
		}
		eachPage(off, int64(n), func(number, from, to, at int64) {
			p := new(page)
			copy(p[from:to], chunk[at:])
			keep(d.durable, number, p)
		})
		if err == io.EOF {
			break
		}
	}
	return d, nil
}

// Size is in bytes.
func (m *Image) Size() int64 { return m.size }

// ReadAt is io.ReaderAt: fewer bytes than asked for come with io.EOF.
func (m *Image) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("read an image at %d: %w", off, ErrRange)
	}
	n := max(0, min(int64(len(p)), m.size-off))
	eachPage(off, n, func(number, from, to, at int64) {
		readPage(p[at:at+to-from], m.pages[number], from)
	})
	if n < int64(len(p)) {
		return int(n), io.EOF
	}
	return int(n), nil
}

// CopyTo writes what is not zero into w, which reads zeros everywhere: a new file that was truncated to Size stays sparse.
func (m *Image) CopyTo(w io.WriterAt) error {
	for _, n := range slices.Sorted(maps.Keys(m.pages)) {
		p := m.pages[n][:min(pageBytes, m.size-n*pageBytes)]
		if _, err := w.WriteAt(p, n*pageBytes); err != nil {
			return fmt.Errorf("copy an image at %d: %w", n*pageBytes, err)
		}
	}
	return nil
}
