package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/pipeline"
)

// The state of a Sparkplug decoder, in entries: see ../exec/FORMAT.md. Integers are little endian or uvarints.

const (
	nodeEntry  = 'n' // n GROUP 0 EDGE
	birthEntry = 'b' // b GROUP 0 EDGE 0 DEVICE; DEVICE is empty for the node's own

	nodeEntryBytes = 1 + 1 + 8 + 8
)

// Flags of a node's entry.
const (
	flagBorn  = 1
	flagBdSeq = 2
)

var errSparkplugState = errors.New("state of a Sparkplug decoder cannot be read")

// Save implements Sequential.
func (d *Sparkplug) Save(put func(key, val []byte) error) error {
	for _, n := range d.changed {
		n.moved = false
		var own []byte
		if !n.dead {
			own = n.encode()
		}
		if err := put([]byte(string(rune(nodeEntry))+n.key), own); err != nil {
			return err
		}
		devices := make([]string, 0, len(n.birthed))
		for device := range n.birthed {
			devices = append(devices, device)
		}
		slices.Sort(devices)
		for _, device := range devices {
			var val []byte
			if b := n.tables[device]; b != nil {
				val = b.encode()
			}
			if err := put([]byte(string(rune(birthEntry))+n.key+"\x00"+device), val); err != nil {
				return err
			}
		}
		clear(n.birthed)
	}
	d.changed = d.changed[:0]
	return nil
}

func (n *sparkplugNode) encode() []byte {
	b := make([]byte, 0, nodeEntryBytes)
	flags := byte(0)
	if n.born {
		flags |= flagBorn
	}
	if n.hasBd {
		flags |= flagBdSeq
	}
	b = append(b, flags, n.next)
	b = binary.LittleEndian.AppendUint64(b, n.bdSeq)
	return binary.LittleEndian.AppendUint64(b, uint64(n.hole))
}

// encode never gives nil: that would say that the certificate is gone.
func (b *sparkplugBirth) encode() []byte {
	out := binary.AppendUvarint(nil, uint64(len(b.metrics)))
	for i := range b.metrics {
		m := &b.metrics[i]
		alias := uint64(0)
		if m.hasAlias {
			alias = 1
		}
		out = binary.AppendUvarint(out, uint64(m.typ)<<1|alias)
		if m.hasAlias {
			out = binary.AppendUvarint(out, m.alias)
		}
		out = binary.AppendUvarint(out, uint64(len(m.name)))
		out = append(out, m.name...)
	}
	return out
}

// Load implements Sequential. Entries come in any order.
func (d *Sparkplug) Load(key, val []byte) error {
	bad := func() error { return fmt.Errorf("%w: entry %q of %d bytes", errSparkplugState, key, len(val)) }
	if len(key) == 0 {
		return bad()
	}
	parts := strings.Split(string(key[1:]), "\x00")
	switch {
	case key[0] == nodeEntry && len(parts) == 2 && len(val) == nodeEntryBytes:
		n := d.loaded(parts[0] + "\x00" + parts[1])
		n.born, n.hasBd, n.next = val[0]&flagBorn != 0, val[0]&flagBdSeq != 0, val[1]
		n.bdSeq, n.hole = binary.LittleEndian.Uint64(val[2:]), pipeline.Position(binary.LittleEndian.Uint64(val[10:]))
		return nil
	case key[0] == birthEntry && len(parts) == 3:
		b, ok := decodeBirth(val)
		if !ok {
			return bad()
		}
		n := d.loaded(parts[0] + "\x00" + parts[1])
		if n.tables[parts[2]] != nil {
			return bad()
		}
		n.tables[parts[2]] = b
		d.metrics += len(b.metrics) + 1
		return nil
	}
	return bad()
}

func (d *Sparkplug) loaded(key string) *sparkplugNode {
	n := d.nodes[key]
	if n == nil {
		n = newSparkplugNode(key)
		d.nodes[key] = n
	}
	return n
}

func decodeBirth(b []byte) (*sparkplugBirth, bool) {
	next := func() (v uint64, ok bool) {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, false
		}
		b = b[n:]
		return v, true
	}
	count, ok := next()
	if !ok || count > uint64(len(b)) { // a metric takes two bytes at least
		return nil, false
	}
	out := newSparkplugBirth(int(count))
	for range count {
		typ, ok := next()
		if !ok || typ>>1 > 1<<32-1 {
			return nil, false
		}
		m := bornMetric{typ: sparkplugType(typ >> 1), hasAlias: typ&1 == 1}
		if m.hasAlias {
			if m.alias, ok = next(); !ok {
				return nil, false
			}
		}
		length, ok := next()
		if !ok || length > uint64(len(b)) {
			return nil, false
		}
		m.name, b = string(b[:length]), b[length:]
		out.add(m)
	}
	return out, len(b) == 0
}
