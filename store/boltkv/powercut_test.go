package boltkv

import (
	"bytes"
	"maps"
	"math/rand/v2"
)

// diskState is what is durable, and what may be.
type diskState struct {
	names   map[string]int // file by name, durable
	changes []nameChange   // not synced, in order
	files   []diskFile
	promise string
}

type nameChange struct {
	name string
	file int // -1: none
	also string
}

type diskFile struct {
	durable []byte
	pending []op
}

// do applies an operation. now tells which file has a name at the moment.
func (d *diskState) do(o op) {
	switch o.kind {
	case "create":
		if d.now(o.name) < 0 {
			d.files = append(d.files, diskFile{})
			d.changes = append(d.changes, nameChange{name: o.name, file: len(d.files) - 1})
		}
	case "remove":
		d.changes = append(d.changes, nameChange{name: o.name, file: -1})
	case "rename":
		if o.name != o.old {
			d.changes = append(d.changes, nameChange{name: o.name, file: d.now(o.old), also: o.old})
		}
	case "write":
		f := &d.files[d.now(o.name)]
		f.pending = append(f.pending, o)
	case "sync":
		f := &d.files[d.now(o.name)]
		for _, w := range f.pending {
			f.durable = put(f.durable, w.off, w.data)
		}
		f.pending = nil
	case "syncdir":
		for _, c := range d.changes {
			apply(d.names, c)
		}
		d.changes = nil
	case "promise":
		d.promise = o.name
	}
}

func apply(names map[string]int, c nameChange) {
	delete(names, c.also)
	if names[c.name] = c.file; c.file < 0 {
		delete(names, c.name)
	}
}

func (d *diskState) now(name string) int {
	names := maps.Clone(d.names)
	for _, c := range d.changes {
		apply(names, c)
	}
	if f, ok := names[name]; ok {
		return f
	}
	return -1
}

// put writes with zeros for what lies between.
func put(b []byte, off int, data []byte) []byte {
	if need := off + len(data); len(b) < need {
		b = append(b, make([]byte, need-len(b))...)
	}
	copy(b[off:], data)
	return b
}

// sector is a piece of a write that arrives whole or not.
type sector struct {
	file, off int
	data      []byte
}

const sectorBytes = 512

func (d *diskState) sectors() (list []sector) {
	for i, f := range d.files {
		for _, w := range f.pending {
			for at := 0; at < len(w.data); at += sectorBytes {
				list = append(list, sector{i, w.off + at, w.data[at:min(at+sectorBytes, len(w.data))]})
			}
			if len(w.data) == 0 { // the file only grew
				list = append(list, sector{i, w.off, nil})
			}
		}
	}
	return list
}

// subsets: nothing, each prefix and the whole, each suffix, each one missing, each lone one, random ones.
func subsets(n, random int, r *rand.Rand) (list []func(int) bool) {
	for k := range n + 1 {
		list = append(list, func(i int) bool { return i < k })
	}
	if n == 0 {
		return list
	}
	for k := range n {
		list = append(list, func(i int) bool { return i >= k }, func(i int) bool { return i != k }, func(i int) bool { return i == k })
	}
	for range random {
		bits := make([]bool, n)
		for i := range bits {
			bits[i] = r.IntN(2) == 0
		}
		list = append(list, func(i int) bool { return bits[i] })
	}
	return list
}

// A lost sector of a file that grew reads as zeros, as erased flash, or as what another file left in the block.
var fills = []string{"zeros", "erased", "stale", "mixed"}

// images gives every legal outcome: sectors in any order and number, with the size that lost ones would have given the file or without,
// and each subset of the name changes.
func (d *diskState) images(random int, r *rand.Rand, stale []byte, f func(files map[string][]byte)) {
	list := d.sectors()
	for _, keep := range subsets(len(list), random, r) {
		for _, fill := range fills {
			for _, sizes := range []bool{false, true} {
				content := d.content(list, keep, fill, sizes, stale)
				for mask := range 1 << len(d.changes) {
					names := maps.Clone(d.names)
					for i, c := range d.changes {
						if mask>>i&1 == 1 {
							apply(names, c)
						}
					}
					files := map[string][]byte{}
					for name, i := range names {
						files[name] = content[i]
					}
					f(files)
				}
			}
		}
	}
}

func (d *diskState) content(list []sector, keep func(int) bool, fill string, sizes bool, stale []byte) [][]byte {
	content := make([][]byte, len(d.files))
	for i, f := range d.files {
		content[i] = bytes.Clone(f.durable)
	}
	for k, s := range list {
		b := content[s.file]
		if end := s.off + len(s.data); (sizes || keep(k)) && len(b) < end {
			for at := len(b); at < end; at++ {
				b = append(b, filler(fill, at, stale))
			}
		}
		if keep(k) {
			b = put(b, s.off, s.data)
		}
		content[s.file] = b
	}
	return content
}

func filler(fill string, at int, stale []byte) byte {
	if fill == "mixed" {
		fill = fills[at/sectorBytes*7%11%3]
	}
	switch {
	case fill == "erased":
		return 0xff
	case fill == "stale" && at < len(stale):
		return stale[at]
	}
	return 0
}
