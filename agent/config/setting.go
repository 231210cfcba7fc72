package config

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/weirstream/weir/pipeline/plan"
)

// The definition table. Each section of the file is an object: a list of settings, each with its key, kind, default and
// meaning. The reader, the JSON Schema and docs/config.md are made from the same table, so that they cannot differ.

// kind reads one value and describes itself. The kind of a single value is one. What it reads into has the type that its method reads names, which reads[P] has the compiler check.
type kind interface {
	described
	// read sets what into points to from n, or notes problems. It is zero, or what a default made of it.
	read(r *reader, n *node, into any)
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

// means is a kind whose type is not known any more: what reads takes what kind describes, and panics at any other pointer.
type means struct {
	kind described
	read func(r *reader, n *node, into any)
}

// value is what a setting reads, and where it goes.
type value struct {
	means
	at func(object any) (into any)
}

// place is where in an object something is, by the type of the pointer to it.
type place[P any] struct{ at func(object any) (into any) }

// reads is what can be read into a P: a kind, or one that is made of others. Its method is there for the compiler alone, which refuses a kind at a place of another type. It has no more
// of them, since each would be made for each of some hundred types: 0.2 MB of the binary.
type reads[P any] interface{ reads(P) }

// made is a kind that is made of others.
type made interface{ means() means }

// at gives the place of a field. Its types are those of pointers: code for all of these is made once, while that for a pair of values would be made for each of some hundred pairs, 0.1 MB of the binary.
func at[O, P any](field func(O) P) place[P] {
	return place[P]{func(object any) any { return field(object.(O)) }}
}

func (p place[P]) is(k reads[P]) value { return value{meant(k), p.at} }

// meant lets go of the type.
func meant(k any) means {
	switch k := k.(type) {
	case kind:
		return means{k, k.read}
	case made:
		return k.means()
	}
	panic(fmt.Sprintf("BUG: %T reads nothing", k)) // found by whatever starts
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
	section section
	// place records where the object stands. Optional.
	place func(*T, plan.Pos)
	// check looks at the whole object once its settings are read. Optional.
	check func(r *reader, n *node, v *T)
	// flaw is told when something in the object could not be read, before check. Optional.
	flaw func(*T)
}

func (*object[T]) reads(*T)       {}
func (o *object[T]) means() means { return sectionOf(&o.section, o.place, o.check, o.flaw) }

// fill reads an object.
func (o *object[T]) fill(r *reader, n *node, into *T) { o.means().read(r, n, into) }

func sectionOf[P any](s *section, place func(P, plan.Pos), check func(*reader, *node, P), flaw func(P)) means {
	reached := func(m moment, r *reader, n *node, into any) {
		v := into.(P)
		switch {
		case m == begun && place != nil:
			place(v, n.pos)
		case m == flawed && flaw != nil:
			flaw(v)
		case m == ended && check != nil:
			check(r, n, v)
		}
	}
	return means{s, func(r *reader, n *node, into any) { s.read(r, n, into, reached) }}
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
