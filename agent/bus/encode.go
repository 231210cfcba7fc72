package bus

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Variant is a value that is sent with its signature.
type Variant struct{ Value any }

// Path is an object path.
type Path string

// encoder appends values at their alignment.
type encoder struct{ b []byte }

func (e *encoder) align(n int) {
	for len(e.b)%n != 0 {
		e.b = append(e.b, 0)
	}
}

func (e *encoder) u32(v uint32) {
	e.align(4)
	e.b = binary.LittleEndian.AppendUint32(e.b, v)
}

func (e *encoder) text(s string) {
	e.u32(uint32(len(s)))
	e.b = append(append(e.b, s...), 0)
}

func (e *encoder) signature(s string) { e.b = append(append(append(e.b, byte(len(s))), s...), 0) }

// signatureOf tells how a value is sent.
func signatureOf(v any) (string, error) {
	switch v := v.(type) {
	case string:
		return "s", nil
	case Path:
		return "o", nil
	case bool:
		return "b", nil
	case byte:
		return "y", nil
	case int32:
		return "i", nil
	case uint32:
		return "u", nil
	case int64:
		return "x", nil
	case uint64:
		return "t", nil
	case float64:
		return "d", nil
	case []string:
		return "as", nil
	case map[string]Variant:
		return "a{sv}", nil
	case Variant:
		return "v", nil
	default:
		return "", fmt.Errorf("D-Bus: no signature for %T", v)
	}
}

func (e *encoder) value(v any) error {
	switch v := v.(type) {
	case string:
		e.text(v)
	case Path:
		e.text(string(v))
	case bool:
		n := uint32(0)
		if v {
			n = 1
		}
		e.u32(n)
	case byte:
		e.b = append(e.b, v)
	case int32:
		e.u32(uint32(v))
	case uint32:
		e.u32(v)
	case int64:
		e.align(8)
		e.b = binary.LittleEndian.AppendUint64(e.b, uint64(v))
	case uint64:
		e.align(8)
		e.b = binary.LittleEndian.AppendUint64(e.b, v)
	case float64:
		e.align(8)
		e.b = binary.LittleEndian.AppendUint64(e.b, math.Float64bits(v))
	case []string:
		return e.array(4, func() error {
			for _, s := range v {
				e.text(s)
			}
			return nil
		})
	case map[string]Variant:
		return e.array(8, func() error {
			keys := make([]string, 0, len(v))
			for k := range v {
				keys = append(keys, k)
			}
			slices.Sort(keys)
			for _, k := range keys {
				e.align(8)
				e.text(k)
				if err := e.value(v[k]); err != nil {
					return err
				}
			}
			return nil
		})
	case Variant:
		sig, err := signatureOf(v.Value)
		if err != nil {
			return err
		}
		e.signature(sig)
		return e.value(v.Value)
	default:
		return fmt.Errorf("D-Bus: cannot send %T", v)
	}
	return nil
}

func (e *encoder) array(align int, items func() error) error {
	e.u32(0)
	at := len(e.b) - 4
	e.align(align)
	from := len(e.b)
	if err := items(); err != nil {
		return err
	}
	binary.LittleEndian.PutUint32(e.b[at:], uint32(len(e.b)-from))
	return nil
}
