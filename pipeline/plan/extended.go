package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/pipeline"
)

// extended is the scope of rows that keep the fields of the rows that came in and have columns besides. A column hides the field
// of its name. Slots of the input are carried as they are asked for; the columns come first.
type extended struct {
	what    string
	in      scope
	own     []Column
	mapping []int // per slot: the slot of in, -1 for an own column
	kinds   []pipeline.Kind
	slots   map[string]int // of carried fields, by path
	whole   int
	instead bool // columns stand for fields of the document, which a sink writes as it came
	// parts gives what is within an own column; nil: nothing is.
	parts func(column string, rest pipeline.Path) (slot int, kind pipeline.Kind, err error)
}

func newExtended(what string, in scope) *extended {
	return &extended{what: what, in: in, slots: map[string]int{}, whole: -1}
}

// add makes an own column. Its name is a path when it stands for a field.
func (e *extended) add(name string, kind pipeline.Kind) (slot int) {
	slot = e.give(-1, kind)
	e.own = append(e.own, Column{Name: name, Slot: slot, Kind: kind})
	return slot
}

func (e *extended) give(from int, kind pipeline.Kind) int {
	e.mapping, e.kinds = append(e.mapping, from), append(e.kinds, kind)
	return len(e.mapping) - 1
}

// carry gives the slot in which a part of a key comes out, also when an own column hides the field.
func (e *extended) carry(k key) int {
	if slot := slices.Index(e.mapping, k.slot); slot >= 0 {
		return slot
	}
	slot := e.give(k.slot, k.kind)
	if _, taken := e.slots[k.path]; taken || e.column(k.path) != nil {
		e.slots["\x01"+k.path] = slot
		return slot
	}
	e.slots[k.path] = slot
	return slot
}

func (e *extended) column(name string) *Column {
	i := slices.IndexFunc(e.own, func(c Column) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &e.own[i]
}

// within is the own column that a path leads into.
func (e *extended) within(p pipeline.Path) *Column {
	for n := 1; n < len(p); n++ {
		if c := e.column(p[:n].String()); c != nil {
			return c
		}
	}
	return nil
}

func (e *extended) lookup(p pipeline.Path) error {
	if e.column(p.String()) != nil {
		return nil
	}
	if c := e.within(p); c != nil {
		if e.parts == nil {
			return fmt.Errorf("column %s of %s has no parts", c.Name, e.what)
		}
		return nil // what Field finds wrong with a part, it says
	}
	return e.in.lookup(p)
}

func (e *extended) Field(p pipeline.Path) (int, pipeline.Kind, error) {
	key := p.String()
	if c := e.column(key); c != nil {
		return c.Slot, c.Kind, nil
	}
	if err := e.lookup(p); err != nil {
		return 0, 0, err
	}
	if c := e.within(p); c != nil {
		return e.parts(c.Name, p[1:])
	}
	if slot, ok := e.slots[key]; ok {
		return slot, e.kinds[slot], nil
	}
	from, kind, err := e.in.Field(p)
	if err != nil {
		return 0, 0, err
	}
	slot := e.give(from, kind)
	e.slots[key] = slot
	return slot, kind, nil
}

// shown are the own columns that a sink may write: those without a name of the kind $time or motor.rpm.
func (e *extended) shown() (cols []Column) {
	for _, c := range e.own {
		if !strings.HasPrefix(c.Name, "$") && !strings.ContainsAny(c.Name, ".[") {
			cols = append(cols, c)
		}
	}
	return cols
}

func (e *extended) Names() []string {
	names := e.in.Names()
	for _, c := range e.own {
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names
}

func (e *extended) columns() ([]Column, int) {
	carried, whole := e.in.columns()
	if whole >= 0 && e.whole < 0 {
		e.whole = e.give(whole, pipeline.Null)
	}
	var cols []Column
	for _, c := range carried {
		if e.column(c.Name) != nil {
			cols = append(cols, *e.column(c.Name))
			continue
		}
		key := "\x00" + c.Name // apart from Field: in a union's rows a column is not the field of its name
		slot, ok := e.slots[key]
		if !ok {
			slot = e.give(c.Slot, c.Kind)
			e.slots[key] = slot
		}
		cols = append(cols, Column{Name: c.Name, Slot: slot, Kind: c.Kind})
	}
	for _, c := range e.shown() {
		if !slices.ContainsFunc(carried, func(have Column) bool { return have.Name == c.Name }) {
			cols = append(cols, c)
		}
	}
	return cols, e.whole
}

func (e *extended) open() bool { return e.in.open() }
func (e *extended) width() int { return len(e.mapping) }

// layout names the slots.
func (e *extended) layout() []string {
	names := make([]string, len(e.mapping))
	for name, slot := range e.slots {
		names[slot] = name
	}
	for _, c := range e.own {
		names[c.Slot] = c.Name
	}
	return names
}

// extend adds an own column of a step to its rows; ok is false when a field has its name already, which is noted, at the given place for a name that is not written.
func (c *compiler) extend(e *extended, name Text, at Pos, kind pipeline.Kind) (slot int, ok bool) {
	if name.Value == "" {
		return 0, false // said where the setting was read
	}
	if slices.Contains(e.Names(), name.Value) {
		if name.Pos.Line == 0 { // a default
			name.Pos = at
		}
		c.problems.Add(name.Pos, "", "each column has a name of its own; give it another with as, or rename the field with a select step before",
			"%s would have two columns %q", e.what, name)
		return 0, false
	}
	return e.add(name.Value, kind), true
}

// extendedOf is the scope if it is one of rows with columns besides, else nil.
func extendedOf(s scope) *extended {
	switch s := s.(type) {
	case *extended:
		return s
	case *elements:
		return s.extended
	}
	return nil
}

// replacesField finds a step before an edge whose columns stand for fields of the document that a sink writes: "" for none.
func replacesField(s scope) string {
	e := extendedOf(s)
	switch {
	case e == nil || !e.open():
		return ""
	case e.instead:
		return e.what
	}
	return replacesField(e.in)
}
