package disktest

import (
	"encoding/binary"
	"fmt"
	"path/filepath"
)

// entriesName is the Recorder's log; a held inode is a hard link beside it.
const entriesName = "entries"

func heldName(dir string, ino uint64) string { return filepath.Join(dir, fmt.Sprintf("ino-%d", ino)) }

const (
	kindWrite    byte = iota + 1 // data at off of node, which was size long and held old there
	kindTruncate                 // node, size long, is cut or grown to off; old lay behind
	kindSync                     // node, entries before upTo
	kindName                     // path points to node (0: to nothing) and pointed to prev
	kindRename                   // path points to node and pointed to prev; from pointed to node and points to nothing
	kindSyncDir                  // names in path, entries before upTo
)

// entry is one thing that was done. Its number is its place in the log.
type entry struct {
	kind             byte
	node, prev, upTo uint64
	off, size        int64
	path, from       string
	old, data        []byte
}

// encode: length, then the fields. A run of zeros, as a new segment is made of, takes no space.
func (e *entry) encode() []byte {
	b := make([]byte, 4, 64+len(e.old)+len(e.data))
	b = append(b, e.kind)
	for _, v := range [...]uint64{e.node, e.prev, e.upTo, uint64(e.off), uint64(e.size)} {
		b = binary.AppendUvarint(b, v)
	}
	for _, p := range [...][]byte{[]byte(e.path), []byte(e.from), e.old, e.data} {
		b = appendBytes(b, p)
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

func appendBytes(b, p []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(p)))
	for _, c := range p {
		if c != 0 {
			return append(append(b, 1), p...)
		}
	}
	return append(b, 0)
}

// decodeEntries reads whole entries and tells how many bytes they take: the last one may have been cut short by a kill.
func decodeEntries(b []byte) (list []entry, size int) {
	for len(b)-size >= 4 {
		n := int(binary.LittleEndian.Uint32(b[size:]))
		if len(b)-size-4 < n {
			break
		}
		list = append(list, decodeEntry(b[size+4:size+4+n]))
		size += 4 + n
	}
	return list, size
}

func decodeEntry(b []byte) (e entry) {
	e.kind, b = b[0], b[1:]
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		b = b[n:]
		return v
	}
	bytes := func() []byte {
		n := number()
		filled := b[0] == 1
		b = b[1:]
		if !filled {
			return make([]byte, n)
		}
		p := b[:n:n]
		b = b[n:]
		return p
	}
	e.node, e.prev, e.upTo, e.off, e.size = number(), number(), number(), int64(number()), int64(number())
	e.path, e.from, e.old, e.data = string(bytes()), string(bytes()), bytes(), bytes()
	return e
}
