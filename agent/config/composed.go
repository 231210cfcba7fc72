package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/weirstream/weir/pipeline/plan"
)

// Kinds that are made of others. What the compiler checks is their types (setting.go); what they do goes by reflection, once for all types: a config is read once at a start.

// optional makes an object that may be missing: nil then. The items of a list of objects are such.
type optional[T any] struct{ *object[T] }

func (optional[T]) reads(**T) {}
func (o optional[T]) means() means {
	m := o.object.means()
	return means{absentSection{&o.object.section}, m.pointed}
}

// absentSection is one that may be missing: it has no defaults then.
type absentSection struct{ *section }

func (absentSection) own() *section { return &section{} }

// pointed reads into a new value that *into points to.
func (m means) pointed(r *reader, n *node, into any) {
	pointer := reflect.ValueOf(into).Elem()
	pointer.Set(reflect.New(pointer.Type().Elem()))
	m.read(r, n, pointer.Interface())
}

// pointerTo makes a setting that is nil when it is not written.
type pointerTo[V any] struct{ of reads[*V] }

func (pointerTo[V]) reads(**V) {}
func (k pointerTo[V]) means() means {
	m := meant(k.of)
	return means{m.kind, m.pointed}
}

// named is a mapping from names to objects, in the order of the file.
type named[T any] struct {
	of   *object[T]
	dots bool
	name func(*T) *plan.Text
}

func (named[T]) reads(*[]*T) {}
func (k named[T]) means() means {
	m := &mapping{of: &k.of.section, dots: k.dots, item: k.of.means(), name: nameOf(k.name)}
	return means{m, m.read}
}

func nameOf[P any](name func(P) *plan.Text) func(any) *plan.Text {
	return func(object any) *plan.Text { return name(object.(P)) }
}

// mapping is named without its type.
type mapping struct {
	of   *section
	dots bool
	item means
	name func(object any) *plan.Text
}

func (m *mapping) label() string                  { return "a mapping from names to settings (" + m.of.what + ")" }
func (m *mapping) settings() ([]*setting, string) { return m.of.list, "names" }

func (m *mapping) read(r *reader, n *node, into any) {
	if n.shape == shapeNull {
		return
	}
	if n.shape != shapeMapping {
		r.wrong(n, m.label())
		return
	}
	list, have := reflect.ValueOf(into).Elem(), map[string]int{}
	for _, e := range n.entries {
		name := e.key.text
		if first, twice := have[name]; twice {
			r.problems.Add(e.key.pos, "", "each name stands once", "%s %s is given twice, first at line %d", bare(m.of.what), quote(name), first)
			continue
		}
		have[name] = e.key.pos.Line
		if reason := plan.CheckName(name, m.dots); reason != "" {
			r.problems.Add(e.key.pos, "", plan.NameAllowed, "%s %s: %s", bare(m.of.what), quote(name), reason)
		}
		if e.value.shape == shapeRefused {
			continue
		}
		v := reflect.New(list.Type().Elem().Elem())
		*m.name(v.Interface()) = e.key.toText()
		if e.value.shape == shapeNull {
			e.value.pos = e.key.pos
		}
		m.item.read(r, e.value, v.Interface())
		*m.name(v.Interface()) = e.key.toText()
		list.Set(reflect.Append(list, v))
	}
}

// bare takes the article off.
func bare(what string) string { return strings.TrimPrefix(what, "a ") }

func (m *mapping) schema() map[string]any {
	pattern := plan.NamePattern
	if m.dots {
		pattern = plan.NamePatternDotted
	}
	return map[string]any{
		"type": "object", "propertyNames": map[string]any{"pattern": pattern, "maxLength": plan.NameBytesMax},
		"additionalProperties": m.of.schema(),
	}
}

// listOf is a list of values of one kind.
type listOf[V any] struct {
	of    reads[*V]
	least int
}

func (listOf[V]) reads(*[]V) {}
func (k listOf[V]) means() means {
	l := list{meant(k.of), k.least}
	return means{l, l.read}
}

// list is listOf without its type.
type list struct {
	of    means
	least int
}

func (l list) label() string { return "a list, each item " + l.of.kind.label() }
func (l list) settings() ([]*setting, string) {
	if p, ok := l.of.kind.(parent); ok {
		children, _ := p.settings()
		return children, "list"
	}
	return nil, ""
}

func (l list) read(r *reader, n *node, into any) {
	values := reflect.ValueOf(into).Elem()
	values.SetZero()
	if n.shape != shapeList {
		r.wrong(n, l.label())
		return
	}
	if len(n.items) < l.least {
		r.problems.Add(n.pos, "", fmt.Sprintf("at least %d", l.least), "the list has %d items", len(n.items))
	}
	for _, item := range n.items {
		v := reflect.New(values.Type().Elem())
		l.of.read(r, item, v.Interface())
		values.Set(reflect.Append(values, v.Elem()))
	}
}

func (l list) schema() map[string]any {
	out := map[string]any{"type": "array", "items": l.of.kind.schema()}
	if l.least > 0 {
		out["minItems"] = l.least
	}
	return out
}
