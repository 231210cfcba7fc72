// Package strict reads and writes the JSON of signed documents, where every byte matters: no member twice, none unknown, none of those missing that are always written, names in
// their exact case, no null, whole numbers only and in range, valid UTF-8, and a bound on each text and list that holds while it is read. The type that is read into drives the
// reading, so that depth is the type's and what has no place in it is refused before it is looked at.
//
// A field's tag json gives its name, and omitempty that it may be missing. The tag most bounds it: bytes of a text, entries of a list or map; each bounds the texts in a list or map.
package strict

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// What a tag does not bound.
const (
	textMost = 256
	listMost = 64
)

// ErrForm is what each error of this package is.
var ErrForm = errors.New("not a document of this form")

// Decode reads b, one object, into a pointer to a struct that is zero. On an error what it points to is of no use.
func Decode(b []byte, into any) error {
	r := reader{b: b}
	err := r.value(reflect.ValueOf(into).Elem(), bounds{})
	if r.space(); err == nil && r.i < len(b) {
		err = errors.New("something behind its end")
	}
	if err != nil {
		return fmt.Errorf("%w: %sbyte %d: %w", ErrForm, r.where(), r.i, err)
	}
	return nil
}

// bounds are what the tags of a field say; 0: the default.
type bounds struct{ most, each int }

func (b bounds) text() int { return or(b.most, textMost) }
func (b bounds) list() int { return or(b.most, listMost) }

func or(n, other int) int {
	if n > 0 {
		return n
	}
	return other
}

// reader walks b. path leads to what is read: it is left as it is at an error.
type reader struct {
	b    []byte
	i    int
	path []string
}

func (r *reader) where() string {
	if len(r.path) == 0 {
		return ""
	}
	return strings.TrimPrefix(strings.Join(r.path, ""), ".") + ": "
}

func (r *reader) value(v reflect.Value, b bounds) error {
	r.space()
	switch v.Kind() {
	case reflect.Struct:
		return r.object(v)
	case reflect.Map:
		return r.dictionary(v, b)
	case reflect.Slice:
		return r.list(v, b)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return r.value(v.Elem(), b)
	case reflect.String:
		s, err := r.text(b.text())
		v.SetString(s)
		return err
	case reflect.Bool:
		return r.truth(v)
	case reflect.Int, reflect.Int64:
		return r.integer(v)
	case reflect.Uint32, reflect.Uint64:
		return r.unsigned(v)
	}
	panic("BUG: no reading into " + v.Type().String())
}

// field is a member that a struct has.
type field struct {
	name     string
	index    int
	optional bool
	bounds
}

func fieldsOf(t reflect.Type) (list []field) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || !f.IsExported() {
			panic("BUG: " + t.String() + "." + f.Name + " has no name in JSON")
		}
		list = append(list, field{name, i, options == "omitempty", bounds{number(f.Tag.Get("most")), number(f.Tag.Get("each"))}})
	}
	return list
}

func number(tag string) int {
	if tag == "" {
		return 0
	}
	n, err := strconv.Atoi(tag)
	if err != nil || n < 1 {
		panic("BUG: bound " + tag)
	}
	return n
}

func (r *reader) object(v reflect.Value) error {
	fields := fieldsOf(v.Type())
	seen := make([]bool, len(fields))
	err := r.members(func(name string) error {
		for i, f := range fields {
			if f.name != name {
				continue
			}
			if seen[i] {
				return errors.New("this member is there twice")
			}
			seen[i] = true
			one := v.Field(f.index)
			if err := r.value(one, f.bounds); err != nil {
				return err
			}
			if k := one.Kind(); f.optional && (k == reflect.Slice || k == reflect.Map) && one.Len() == 0 {
				return errors.New("empty; leave it out") // whoever narrowed it down to nobody must not get everybody
			}
			return nil
		}
		return errors.New("no such member is known")
	})
	if err != nil {
		return err
	}
	for i, f := range fields {
		if !seen[i] && !f.optional {
			return fmt.Errorf("member %q is missing", f.name)
		}
	}
	return nil
}

func (r *reader) dictionary(v reflect.Value, b bounds) error {
	v.Set(reflect.MakeMap(v.Type()))
	return r.members(func(name string) error {
		key := reflect.ValueOf(name).Convert(v.Type().Key())
		if v.MapIndex(key).IsValid() {
			return errors.New("this member is there twice")
		}
		if v.Len() == b.list() {
			return fmt.Errorf("more than %d members", b.list())
		}
		one := reflect.New(v.Type().Elem()).Elem()
		if err := r.value(one, bounds{most: b.each}); err != nil {
			return err
		}
		v.SetMapIndex(key, one)
		return nil
	})
}

// members reads an object; each member's value is read by do.
func (r *reader) members(do func(name string) error) error {
	if !r.take('{') {
		return r.unexpected("an object")
	}
	if r.space(); r.take('}') {
		return nil
	}
	for {
		r.space()
		name, err := r.text(textMost)
		if err != nil {
			return err
		}
		r.path = append(r.path, "."+printable(name))
		if r.space(); !r.take(':') {
			return r.unexpected("a colon")
		}
		if err := do(name); err != nil {
			return err
		}
		r.path = r.path[:len(r.path)-1]
		if r.space(); r.take('}') {
			return nil
		}
		if !r.take(',') {
			return r.unexpected("a comma or the object's end")
		}
	}
}

func (r *reader) list(v reflect.Value, b bounds) error {
	if !r.take('[') {
		return r.unexpected("a list")
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	if r.space(); r.take(']') {
		return nil
	}
	for {
		r.path = append(r.path, "["+strconv.Itoa(v.Len())+"]")
		if v.Len() == b.list() {
			return fmt.Errorf("more than %d entries", b.list())
		}
		one := reflect.New(v.Type().Elem()).Elem()
		if err := r.value(one, bounds{most: b.each}); err != nil {
			return err
		}
		v.Set(reflect.Append(v, one))
		r.path = r.path[:len(r.path)-1]
		if r.space(); r.take(']') {
			return nil
		}
		if !r.take(',') {
			return r.unexpected("a comma or the list's end")
		}
	}
}
