package config

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/weirstream/weir/pipeline/plan"
)

// The definition table. Each section of the file is an object: a list of settings, each with its key, kind, default and
// meaning. The reader, the JSON Schema and docs/config.md are made from the same table, so that they cannot differ.

// kind reads one value into a V and describes itself.
type kind[V any] interface {
	described
	// read sets *into from n, or notes problems. *into is zero, or what a default made of it.
	read(r *reader, n *node, into *V)
}

// described is what of a kind does not depend on the type of its values.
type described interface {
	// schema describes the kind (JSON Schema draft 2020-12).
	schema() map[string]any
	// label names the kind in messages and in the documentation: "a duration such as 10s".
	label() string
}

// setting is one key of an object, for any kind.
type setting struct {
	key      string
	doc      string
	fallback string // default, as text of the file; "" none
	required bool
	secret   bool     // names a file with a secret
	boarded  bool     // a board's profile may give another default
	aliases  []string // other keys accepted in this object
	flink    []string // Flink's names, accepted at the level of a pipeline
	label    func() string
	schema   func() map[string]any
	children []*setting // of an object or of the objects in a list or mapping, for the documentation
	many     string     // "", "list", "names": how children repeat
	read     func(r *reader, n *node, object any)
	absent   func(object any)
}

// value is what a setting reads, and where it goes.
type value struct {
	kind described
	read func(r *reader, n *node, into any)
	at   func(object any) (into any)
}

// place is where in an object something is, by the type of the pointer to it.
type place[P any] func(object any) (into any)

// reads is kind by the type of the pointer that it reads into.
type reads[P any] interface {
	described
	read(r *reader, n *node, into P)
}

// at gives the place of a field. Its types are those of pointers: code for all of these is made once, while that for a pair of values would be made for each of some hundred pairs, 0.1 MB of the binary.
func at[O, P any](field func(O) P) place[P] {
	return func(object any) any { return field(object.(O)) }
}

func (p place[P]) is(k reads[P]) value {
	return value{k, func(r *reader, n *node, into any) { k.read(r, n, into.(P)) }, p}
}

// sectioned is an object of any type.
type sectioned interface{ own() *section }

// set defines a setting.
func set(key string, v value, doc string, options ...option) *setting {
	s := &setting{key: key, doc: doc, label: v.kind.label, schema: v.kind.schema}
	if p, ok := v.kind.(parent); ok {
		s.children, s.many = p.settings()
	}
	for _, o := range options {
		o(s)
	}
	s.read = func(r *reader, n *node, object any) {
		into := v.at(object)
		if s.boarded && r.given != nil {
			r.given[into] = n.pos
		}
		v.read(r, n, into)
	}
	s.absent = func(object any) {
		into := v.at(object)
		if o, ok := v.kind.(sectioned); ok {
			o.own().absent(into)
		}
		if s.fallback != "" {
			v.read(&reader{problems: &plan.Problems{}}, fallbackNode(s.fallback), into)
		}
	}
	return s
}

// fallbackNode makes a node of a default as it would stand in a file.
func fallbackNode(text string) *node {
	if list, ok := strings.CutPrefix(text, "["); ok {
		n := &node{shape: shapeList}
		for item := range strings.SplitSeq(strings.TrimSuffix(list, "]"), ", ") {
			if item != "" {
				n.items = append(n.items, fallbackNode(item))
			}
		}
		return n
	}
	return &node{shape: shapeScalar, scalar: plainScalar(text), text: text}
}

func plainScalar(text string) scalar {
	if text == "true" || text == "false" {
		return scalarBool
	}
	if strings.Trim(strings.TrimPrefix(text, "-"), "0123456789") == "" {
		return scalarInt
	}
	if strings.Trim(text, "0123456789.") == "" {
		return scalarFloat
	}
	return scalarString
}

// parent is a kind that holds settings.
type parent interface {
	settings() (children []*setting, many string)
}

type option func(*setting)

func byDefault(text string) option { return func(s *setting) { s.fallback = text } }
func required() option             { return func(s *setting) { s.required = true } }
func flink(name string) option     { return func(s *setting) { s.flink = append(s.flink, name) } }
func alias(names ...string) option {
	return func(s *setting) { s.aliases = append(s.aliases, names...) }
}
func byBoard() option    { return func(s *setting) { s.boarded = true } }
func secretFile() option { return func(s *setting) { s.secret = true } }

// reader collects the problems of one file.
type reader struct {
	problems    *plan.Problems
	given       map[any]plan.Pos // boarded settings of the file, by where their value goes; nil: nobody asks
	credentials []credential     // that were named
}

func (r *reader) wrong(n *node, label string) {
	r.problems.Add(n.pos, "", "a value here is "+label, "found %s", n.describe())
}

// object is a section whose values are of type T.
type object[T any] struct {
	section
	// place records where the object stands. Optional.
	place func(*T, plan.Pos)
	// check looks at the whole object once its settings are read. Optional.
	check func(r *reader, n *node, v *T)
	// flaw is told when something in the object could not be read, before check. Optional.
	flaw func(*T)
}

func (o *object[T]) read(r *reader, n *node, into *T) { o.section.read(r, n, into, o) }

// reached tells the object how far the reading of it is.
func (o *object[T]) reached(m moment, r *reader, n *node, into any) {
	v := into.(*T)
	switch {
	case m == begun && o.place != nil:
		o.place(v, n.pos)
	case m == flawed && o.flaw != nil:
		o.flaw(v)
	case m == ended && o.check != nil:
		o.check(r, n, v)
	}
}

func describe(schema map[string]any, s *setting) {
	schema["description"] = s.doc
	if s.fallback != "" {
		switch plainScalar(s.fallback) {
		case scalarBool:
			schema["default"] = s.fallback == "true"
		case scalarInt, scalarFloat:
			schema["default"] = json.Number(s.fallback)
		default:
			schema["default"] = s.fallback
		}
	}
}

// optional makes an object that may be missing: nil then. The items of a list of objects are such.
type optional[T any] struct{ *object[T] }

// own: what is missing has no defaults.
func (o optional[T]) own() *section { return &section{} }
func (o optional[T]) read(r *reader, n *node, into **T) {
	*into = new(T)
	o.object.read(r, n, *into)
}

// named is a mapping from names to objects, in the order of the file.
type named[T any] struct {
	of   *object[T]
	dots bool
	name func(*T) *plan.Text
}

func (m named[T]) label() string                  { return "a mapping from names to settings (" + m.of.what + ")" }
func (m named[T]) settings() ([]*setting, string) { return m.of.list, "names" }

func (m named[T]) read(r *reader, n *node, into *[]*T) {
	if n.shape == shapeNull {
		return
	}
	if n.shape != shapeMapping {
		r.wrong(n, m.label())
		return
	}
	have := map[string]int{}
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
		v := new(T)
		*m.name(v) = e.key.toText()
		if e.value.shape == shapeNull {
			e.value.pos = e.key.pos
		}
		m.of.read(r, e.value, v)
		*m.name(v) = e.key.toText()
		*into = append(*into, v)
	}
}

// bare takes the article off.
func bare(what string) string { return strings.TrimPrefix(what, "a ") }

func (m named[T]) schema() map[string]any {
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
	of    kind[V]
	least int
}

func (l listOf[V]) label() string { return "a list, each item " + l.of.label() }
func (l listOf[V]) settings() ([]*setting, string) {
	if p, ok := l.of.(parent); ok {
		children, _ := p.settings()
		return children, "list"
	}
	return nil, ""
}

func (l listOf[V]) read(r *reader, n *node, into *[]V) {
	*into = nil
	if n.shape != shapeList {
		r.wrong(n, l.label())
		return
	}
	if len(n.items) < l.least {
		r.problems.Add(n.pos, "", fmt.Sprintf("at least %d", l.least), "the list has %d items", len(n.items))
	}
	for _, item := range n.items {
		var v V
		l.of.read(r, item, &v)
		*into = append(*into, v)
	}
}

func (l listOf[V]) schema() map[string]any {
	out := map[string]any{"type": "array", "items": l.of.schema()}
	if l.least > 0 {
		out["minItems"] = l.least
	}
	return out
}
