package config

import (
	"slices"
	"strings"

	"github.com/weirstream/weir/pipeline/suggest"
)

// section is an object with fixed keys, without the type of its values: what it does is the same for all of them.
type section struct {
	what string // "a source": for messages
	list []*setting
	// rewrite replaces what was written before it is read. Optional.
	rewrite func(r *reader, n *node, own []*setting) *node
	// unknown gives what is allowed instead of the list of keys for a key that is known but not built. Optional.
	unknown func(key string) (allowed string)
}

// moment is how far the reading of an object is.
type moment int

const (
	begun  moment = iota // nothing is read yet
	flawed               // all is read, and something could not be
	ended                // all is read
)

// reached is told of moments: it knows the type of the value. It may be nil.
type reached func(m moment, r *reader, n *node, into any)

func (told reached) tell(m moment, r *reader, n *node, into any) {
	if told != nil {
		told(m, r, n, into)
	}
}

func (o *section) own() *section                  { return o }
func (o *section) settings() ([]*setting, string) { return o.list, "" }

func (o *section) label() string { return "a mapping (" + o.what + ")" }

func (o *section) keys() []string {
	keys := make([]string, len(o.list))
	for i, s := range o.list {
		keys[i] = s.key
	}
	return keys
}

func (o *section) find(key string) *setting {
	for _, s := range o.list {
		if s.key == key || slices.Contains(s.aliases, key) {
			return s
		}
	}
	return nil
}

func (o *section) absent(into any) {
	for _, s := range o.list {
		s.absent(into)
	}
}

func (o *section) read(r *reader, n *node, into any, told reached) {
	if n.shape == shapeNull {
		n = &node{pos: n.pos, shape: shapeMapping}
	}
	if n.shape != shapeMapping {
		o.absent(into)
		r.wrong(n, o.label()+" with the settings "+strings.Join(o.keys(), ", "))
		return
	}
	told.tell(begun, r, n, into)
	o.absent(into)
	if o.rewrite != nil {
		n = o.rewrite(r, n, o.list)
	}
	before := len(*r.problems)
	have, meant := map[string]*node{}, map[string]bool{}
	for _, e := range n.entries {
		o.entry(r, e, into, have, meant)
	}
	for _, s := range o.list {
		if have[s.key] == nil && s.required && !meant[s.key] {
			r.problems.Add(n.pos, "", s.key+": "+strings.TrimSuffix(s.doc, "."), "%s has no %s", o.what, s.key)
		}
	}
	if len(*r.problems) > before {
		told.tell(flawed, r, n, into)
	}
	told.tell(ended, r, n, into)
}

// entry reads one setting; have are those read, meant those that misspelt ones probably were.
func (o *section) entry(r *reader, e entry, into any, have map[string]*node, meant map[string]bool) {
	s := o.find(e.key.text)
	if s == nil {
		if o.unknown != nil {
			if allowed := o.unknown(e.key.text); allowed != "" {
				r.problems.Add(e.key.pos, "", allowed, "%s in %s is not built in this release", quote(e.key.text), o.what)
				return
			}
		}
		keys := o.keys()
		near := suggest.Nearest(e.key.text, keys)
		meant[near] = true
		r.problems.Add(e.key.pos, near, "allowed are "+strings.Join(keys, ", "),
			"unknown setting %s in %s", quote(e.key.text), o.what)
		return
	}
	if o.once(r, s.key, e, have) && e.value.shape != shapeRefused {
		s.read(r, e.value, into)
	}
}

// once notes that a setting was given; a second time is a problem.
func (o *section) once(r *reader, key string, e entry, have map[string]*node) bool {
	if first := have[key]; first != nil {
		r.problems.Add(e.key.pos, "", "a setting stands once", "%s is given twice in %s, first at line %d", quote(e.key.text), o.what, first.pos.Line)
		return false
	}
	have[key] = e.key
	return true
}

func (o *section) schema() map[string]any {
	properties, needed := map[string]any{}, []string{}
	for _, s := range o.list {
		p := s.schema()
		describe(p, s)
		properties[s.key] = p
		for _, a := range s.aliases {
			properties[a] = p
		}
		if s.required {
			needed = append(needed, s.key)
		}
	}
	if o.rewrite != nil {
		for name, to := range flinkSettings(o.list) {
			p := to.setting.schema()
			p["description"] = "Flink's name of " + strings.TrimPrefix(to.section+"."+to.key, ".") + "."
			properties[name] = p
		}
	}
	out := map[string]any{"type": "object", "properties": properties, "additionalProperties": false}
	if len(needed) > 0 {
		out["required"] = needed
	}
	return out
}
