package strict

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Encode writes a struct, or a pointer to one, as Decode reads it: members in the order of the fields, those of maps sorted, no spaces. The same value gives the same bytes for ever.
// It refuses texts that are not UTF-8; bounds are Decode's to check.
func Encode(v any) ([]byte, error) {
	w := writer{}
	w.value(reflect.Indirect(reflect.ValueOf(v)))
	return w.b, w.err
}

type writer struct {
	b   []byte
	err error
}

func (w *writer) value(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		w.object(v)
	case reflect.Map:
		w.dictionary(v)
	case reflect.Slice:
		w.b = append(w.b, '[')
		for i := range v.Len() {
			w.comma(i)
			w.value(v.Index(i))
		}
		w.b = append(w.b, ']')
	case reflect.Pointer:
		if v.IsNil() {
			w.err = errors.Join(w.err, fmt.Errorf("no %s", v.Type().Elem()))
			return
		}
		w.value(v.Elem())
	case reflect.String:
		w.text(v.String())
	case reflect.Bool:
		w.b = strconv.AppendBool(w.b, v.Bool())
	case reflect.Int, reflect.Int64:
		w.b = strconv.AppendInt(w.b, v.Int(), 10)
	case reflect.Uint32, reflect.Uint64:
		w.b = strconv.AppendUint(w.b, v.Uint(), 10)
	default:
		panic("BUG: no writing of " + v.Type().String())
	}
}

func (w *writer) object(v reflect.Value) {
	w.b = append(w.b, '{')
	n := 0
	for _, f := range fieldsOf(v.Type()) {
		one := v.Field(f.index)
		if f.optional && empty(one) {
			continue
		}
		w.comma(n)
		w.text(f.name)
		w.b = append(w.b, ':')
		w.value(one)
		n++
	}
	w.b = append(w.b, '}')
}

func (w *writer) dictionary(v reflect.Value) {
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	w.b = append(w.b, '{')
	for i, k := range keys {
		w.comma(i)
		w.text(k.String())
		w.b = append(w.b, ':')
		w.value(v.MapIndex(k))
	}
	w.b = append(w.b, '}')
}

func (w *writer) comma(i int) {
	if i > 0 {
		w.b = append(w.b, ',')
	}
}

func (w *writer) text(s string) {
	if !utf8.ValidString(s) {
		w.err = errors.Join(w.err, fmt.Errorf("the text %q is not UTF-8", s))
	}
	w.b = append(w.b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			w.b = append(w.b, '\\', c)
		case c < 0x20 || c == 0x7f:
			w.b = fmt.Appendf(w.b, `\u%04x`, c)
		default:
			w.b = append(w.b, c)
		}
	}
	w.b = append(w.b, '"')
}

func empty(v reflect.Value) bool {
	if k := v.Kind(); k == reflect.Map || k == reflect.Slice {
		return v.Len() == 0
	}
	return v.IsZero()
}
