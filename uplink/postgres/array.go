package postgres

import "encoding/binary"

// OIDs of the types that parameters have (pg_type.dat).
const (
	oidText      = 25
	oidInt8      = 20
	oidTextArray = 1009
	oidInt8Array = 1016
)

// array builds a one-dimensional array in PostgreSQL's binary format (array_recv): dimensions, flags, element type, length, lower
// bound, and then each element behind its length, -1 for NULL.
type array struct {
	buf  []byte
	n    uint32
	null bool
}

const arrayHeader = 20

func (a *array) reset() {
	a.buf = append(a.buf[:0], make([]byte, arrayHeader)...)
	a.n, a.null = 0, false
}

func (a *array) addNull() {
	a.buf = binary.BigEndian.AppendUint32(a.buf, 1<<32-1)
	a.n++
	a.null = true
}

func (a *array) add(v []byte) {
	a.buf = binary.BigEndian.AppendUint32(a.buf, uint32(len(v)))
	a.buf = append(a.buf, v...)
	a.n++
}

func (a *array) addInt(v uint64) {
	a.buf = binary.BigEndian.AppendUint32(a.buf, 8)
	a.buf = binary.BigEndian.AppendUint64(a.buf, v)
	a.n++
}

// bytes is the encoded array; it is valid until the next reset.
func (a *array) bytes(oid uint32) []byte {
	h := a.buf[:arrayHeader]
	binary.BigEndian.PutUint32(h, 1)
	binary.BigEndian.PutUint32(h[4:], 0)
	if a.null {
		binary.BigEndian.PutUint32(h[4:], 1)
	}
	binary.BigEndian.PutUint32(h[8:], oid)
	binary.BigEndian.PutUint32(h[12:], a.n)
	binary.BigEndian.PutUint32(h[16:], 1)
	if a.n == 0 {
		binary.BigEndian.PutUint32(h, 0)
		return h[:12]
	}
	return a.buf
}
