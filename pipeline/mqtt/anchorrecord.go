package mqtt

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weirstream/weir/pipeline"
)

const orderScattered = 1 // bit of the order's flags

// anchoredMarks are those that an anchor may hold.
const anchoredMarks = markQoS | markReleased | markCarried

// encodeAnchor is the payload of an EntryAnchor (FORMAT.md).
func encodeAnchor(a *anchor) []byte {
	b := make([]byte, 0, 64+14*len(a.entries))
	b = append(b, recordVersion)
	b = binary.BigEndian.AppendUint64(b, uint64(a.start))
	b = binary.BigEndian.AppendUint64(b, uint64(a.receivedAt))
	flags := byte(0)
	if a.order.scattered {
		flags = orderScattered
	}
	b = append(b, flags)
	b = binary.BigEndian.AppendUint16(b, a.order.last)
	b = binary.AppendUvarint(b, uint64(a.order.run))
	b = binary.AppendUvarint(b, uint64(a.order.regressions))
	subs := encodeSubscribed(a.granted)
	b = binary.BigEndian.AppendUint64(b, uint64(a.grantedPos))
	b = binary.AppendUvarint(b, uint64(len(subs)))
	b = append(b, subs...)
	for _, e := range a.entries {
		b = binary.BigEndian.AppendUint16(b, e.id)
		b = append(b, e.mark)
		b = binary.BigEndian.AppendUint64(b, e.hash)
		b = binary.AppendUvarint(b, uint64(min(max(e.age, 0), ageMax)))
		b = binary.AppendUvarint(b, uint64(a.start-e.pos))
	}
	return b
}

// decodeAnchor is the inverse of encodeAnchor. Errors wrap ErrRecord.
func decodeAnchor(payload []byte) (*anchor, error) {
	if err := checkVersion(payload); err != nil {
		return nil, fmt.Errorf("decode anchor: %w", err)
	}
	r := anchorReader{b: payload[1:]}
	a := &anchor{start: pipeline.Position(r.uint64()), receivedAt: int64(r.uint64())}
	flags := r.byte()
	a.order = idOrder{scattered: flags&orderScattered != 0, last: r.uint16(), run: r.orderCount(), regressions: r.orderCount()}
	a.grantedPos = pipeline.Position(r.uint64())
	granted := r.bytes(r.uvarint(uint64(len(payload))))
	if r.bad || flags&^orderScattered != 0 {
		return nil, fmt.Errorf("decode anchor: %w", ErrRecord)
	}
	var err error
	if a.granted, err = decodeSubscribed(granted); err != nil {
		return nil, fmt.Errorf("decode anchor: %w", err)
	}
	if len(a.granted) == 0 {
		a.granted = nil
	}
	for len(r.b) > 0 && !r.bad {
		var e anchored
		e.id, e.mark, e.hash, e.age = r.uint16(), r.byte(), r.uint64(), int64(r.uvarint(ageMax))
		back := r.uvarint(uint64(a.start))
		r.bad = r.bad || e.mark&^byte(anchoredMarks) != 0 || e.mark&markQoS == 0 || e.mark&markQoS == 3 || back == 0
		e.pos = a.start - pipeline.Position(back)
		a.entries = append(a.entries, e)
	}
	if r.bad {
		return nil, fmt.Errorf("decode anchor: %w", ErrRecord)
	}
	return a, nil
}

// anchorReader takes fields off the front of b; bad when b was too short or a number too large.
type anchorReader struct {
	b   []byte
	bad bool
}

func (r *anchorReader) bytes(n uint64) []byte {
	if r.bad || n > uint64(len(r.b)) {
		r.bad = true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *anchorReader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *anchorReader) uint16() uint16 {
	if b := r.bytes(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (r *anchorReader) uint64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// orderCount takes a count of idOrder. An agent that did not bound them may have written more.
func (r *anchorReader) orderCount() int { return int(min(r.uvarint(math.MaxUint64), orderCountMax)) }

func (r *anchorReader) uvarint(most uint64) uint64 {
	n, w := binary.Uvarint(r.b)
	if w <= 0 || n > most || r.bad {
		r.bad = true
		return 0
	}
	r.b = r.b[w:]
	return n
}
