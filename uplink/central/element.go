package central

import (
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// The elements of pieces are CBOR (RFC 8949, deterministic). There are few forms, and many elements: they are written and read here.

const (
	majorUint  = 0 << 5
	majorNeg   = 1 << 5
	majorBytes = 2 << 5
	majorArray = 4 << 5
	formNull   = 7<<5 | 22
)

func appendItem(dst []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(dst, major|byte(n))
	case n < 1<<8:
		return append(dst, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, major|27), n)
}

func appendBytes(dst, b []byte) []byte {
	return append(appendItem(dst, majorBytes, uint64(len(b))), b...)
}

// entry is an element of a frame. Its bytes are those of the piece.
type entry struct {
	table         uint64
	key, sub, val []byte
	deleted       bool
}

func (e *entry) append(dst []byte) []byte {
	n := uint64(4)
	if e.deleted {
		n = 3
	}
	dst = appendBytes(appendBytes(appendItem(appendItem(dst, majorArray, n), majorUint, e.table), e.key), e.sub)
	if e.deleted {
		return dst
	}
	return appendBytes(dst, e.val)
}

func (e *entry) read(b []byte) (rest []byte, err error) {
	r := elements{b: b}
	n := r.item(majorArray)
	if r.err == nil && n != 3 && n != 4 {
		r.fail()
	}
	*e = entry{table: r.item(majorUint), key: r.bytes(), sub: r.bytes(), deleted: n == 3}
	if n == 4 {
		e.val = r.bytes()
	}
	return r.b, r.err
}

func appendResult(dst []byte, p *pipeline.Result) []byte {
	dst = appendItem(dst, majorArray, 7)
	for _, n := range [...]uint64{p.Seq, p.Last, p.Chain, uint64(p.Pos), uint64(p.Kind)} {
		dst = appendItem(dst, majorUint, n)
	}
	if p.Time < 0 {
		dst = appendItem(dst, majorNeg, uint64(^p.Time))
	} else {
		dst = appendItem(dst, majorUint, uint64(p.Time))
	}
	if p.Payload == nil {
		return append(dst, formNull)
	}
	return appendBytes(dst, p.Payload)
}

// readResult takes a result off b. Its payload is that of b.
func readResult(b []byte) (p pipeline.Result, rest []byte, err error) {
	r := elements{b: b}
	if n := r.item(majorArray); r.err == nil && n != 7 {
		r.fail()
	}
	p.Seq, p.Last, p.Chain, p.Pos = r.item(majorUint), r.item(majorUint), r.item(majorUint), pipeline.Position(r.item(majorUint))
	kind := r.item(majorUint)
	if kind > 255 {
		r.fail()
	}
	p.Kind = pipeline.ResultKind(kind)
	if len(r.b) > 0 && r.b[0]>>5 == majorNeg>>5 {
		p.Time = ^int64(r.item(majorNeg))
	} else {
		p.Time = int64(r.item(majorUint))
	}
	if len(r.b) > 0 && r.b[0] == formNull {
		r.b = r.b[1:]
	} else {
		p.Payload = r.bytes()
	}
	return p, r.b, r.err
}

// elements reads items until one has not the form that is wanted.
type elements struct {
	b   []byte
	err error
}

func (r *elements) fail() {
	if r.err == nil {
		r.err = fmt.Errorf("%w: element of another form", ErrDamaged)
	}
	r.b = nil
}

func (r *elements) item(major byte) uint64 {
	if len(r.b) == 0 || r.b[0]&^31 != major {
		r.fail()
		return 0
	}
	n := uint64(r.b[0] & 31)
	r.b = r.b[1:]
	if n < 24 {
		return n
	}
	if n > 27 || len(r.b) < 1<<(n-24) {
		r.fail()
		return 0
	}
	size := 1 << (n - 24)
	v := uint64(0)
	for _, c := range r.b[:size] {
		v = v<<8 | uint64(c)
	}
	least := uint64(24)
	if size > 1 {
		least = 1 << (4 * size)
	}
	if v < least { // a longer form than needed is no form
		r.fail()
		return 0
	}
	r.b = r.b[size:]
	return v
}

func (r *elements) bytes() []byte {
	n := r.item(majorBytes)
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}
