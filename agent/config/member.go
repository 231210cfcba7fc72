package config

import (
	"fmt"
	"reflect"
	"strings"
)

// The table of a board's profile finds its places by the names in the structs' json tags. A table for each pair of types, as that of the config, would be 300 KB of the binary for what is
// read once at a start.

// member is a setting whose place is the field of that name.
func member(key string, k any, doc string, options ...option) *setting {
	return set(key, value{ofProfile(k), func(object any) any { return fieldOf(object, key) }}, doc, options...)
}

// fieldOf gives the place of a field by its json name.
func fieldOf(object any, key string) any {
	v := reflect.ValueOf(object).Elem()
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); name == key {
			return v.Field(i).Addr().Interface()
		}
	}
	panic(fmt.Sprintf("BUG: %T has no field for %s", object, key)) // a test reads every setting
}

// ofProfile is any of the kinds that a profile has.
func ofProfile(k any) means {
	if k, is := k.(untyped); is {
		return means{k, k.readAny}
	}
	return meant(k)
}

// untyped is a kind whose table finds its places by name.
type untyped interface {
	described
	readAny(r *reader, n *node, into any)
}

// sectionKind is a section of such a table.
type sectionKind struct{ section }

func (k *sectionKind) readAny(r *reader, n *node, into any) { k.section.read(r, n, into, nil) }

// recordsKind is a list of such sections.
type recordsKind struct {
	of    *sectionKind
	least int
}

func (k *recordsKind) label() string                  { return "a list, each item " + k.of.label() }
func (k *recordsKind) settings() ([]*setting, string) { return k.of.list, "list" }
func (k *recordsKind) schema() map[string]any {
	out := map[string]any{"type": "array", "items": k.of.schema()}
	if k.least > 0 {
		out["minItems"] = k.least
	}
	return out
}

func (k *recordsKind) readAny(r *reader, n *node, into any) {
	if n.shape != shapeList {
		r.wrong(n, k.label())
		return
	}
	if len(n.items) < k.least {
		r.problems.Add(n.pos, "", fmt.Sprintf("at least %d", k.least), "the list has %d items", len(n.items))
	}
	list := reflect.ValueOf(into).Elem()
	for _, item := range n.items {
		v := reflect.New(list.Type().Elem().Elem())
		k.of.readAny(r, item, v.Interface())
		list.Set(reflect.Append(list, v))
	}
}
