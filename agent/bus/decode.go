package bus

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

const (
	// bytesMax of a message that is read. The specification has 128 MiB; what is asked for here answers with some KiB.
	bytesMax = 1 << 20
	// depthMax of values within values; the specification has 64.
	depthMax = 32
)

// decoder reads values; the first error stays.
type decoder struct {
	b     []byte
	at    int
	order binary.ByteOrder
	err   error
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("D-Bus message: "+format, args...)
	}
}

func (d *decoder) align(n int) { d.at = (d.at + n - 1) / n * n }

func (d *decoder) take(n int) []byte {
	if d.err != nil || n < 0 || d.at > len(d.b)-n {
		d.fail("ends at byte %d, wants %d more", len(d.b), n)
		return make([]byte, min(max(n, 0), 8))
	}
	d.at += n
	return d.b[d.at-n : d.at]
}

func (d *decoder) u32() uint32 { d.align(4); return d.order.Uint32(d.take(4)) }
func (d *decoder) u64() uint64 { d.align(8); return d.order.Uint64(d.take(8)) }

func (d *decoder) text(n int) string {
	s := string(d.take(n))
	d.take(1)
	return s
}

// next cuts the first complete type off a signature.
func next(sig string) (first, rest string, ok bool) {
	open := 0
	for i := range len(sig) {
		switch sig[i] {
		case 'a':
			continue
		case '(', '{':
			open++
		case ')', '}':
			open--
		}
		if open == 0 {
			return sig[:i+1], sig[i+1:], true
		}
	}
	return "", "", false
}

// value reads one of a complete type: structs and arrays become []any, mappings from text map[string]any.
func (d *decoder) value(sig string, depth int) any {
	if d.err != nil || depth > depthMax || sig == "" {
		d.fail("signature %q nested %d deep", sig, depth)
		return nil
	}
	switch sig[0] {
	case 'y':
		return d.take(1)[0]
	case 'b':
		return d.u32() == 1
	case 'n', 'q':
		d.align(2)
		v := d.order.Uint16(d.take(2))
		if sig[0] == 'n' {
			return int16(v)
		}
		return v
	case 'i':
		return int32(d.u32())
	case 'u', 'h':
		return d.u32()
	case 'x':
		return int64(d.u64())
	case 't':
		return d.u64()
	case 'd':
		return math.Float64frombits(d.u64())
	case 's', 'o':
		return d.text(int(d.u32()))
	case 'g':
		return d.text(int(d.take(1)[0]))
	case 'v':
		inner := d.text(int(d.take(1)[0]))
		if first, _, ok := next(inner); !ok || first != inner {
			d.fail("a variant of %q, which is not one type", inner)
			return nil
		}
		return d.value(inner, depth+1)
	case '(':
		d.align(8)
		return d.values(sig[1:len(sig)-1], depth+1)
	case 'a':
		return d.array(sig[1:], depth+1)
	}
	d.fail("unknown type %q", sig)
	return nil
}

func (d *decoder) values(sig string, depth int) []any {
	var out []any
	for sig != "" && d.err == nil {
		first, rest, ok := next(sig)
		if !ok {
			d.fail("signature %q", sig)
			break
		}
		out, sig = append(out, d.value(first, depth)), rest
	}
	return out
}

func (d *decoder) array(item string, depth int) any {
	size := int(d.u32())
	if item != "" && strings.IndexByte("xtd({", item[0]) >= 0 {
		d.align(8)
	}
	if size < 0 || size > len(d.b)-d.at || item == "" {
		d.fail("array of %d bytes of %q", size, item)
		return nil
	}
	end := d.at + size
	if item == "y" {
		return append([]byte{}, d.take(size)...)
	}
	if len(item) > 3 && item[0] == '{' && (item[1] == 's' || item[1] == 'o') {
		m := map[string]any{}
		for d.at < end && d.err == nil {
			d.align(8)
			k := d.text(int(d.u32()))
			m[k] = d.value(item[2:len(item)-1], depth)
		}
		return m
	}
	list := []any{}
	for d.at < end && d.err == nil {
		from := d.at
		if list = append(list, d.value(item, depth)); d.at == from {
			d.fail("items without bytes")
		}
	}
	if d.at > end {
		d.fail("an item of %q goes beyond its array", item)
	}
	return list
}
