package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/suggest"
)

// elements gives out the columns of a flatten's elements as they are asked for.
type elements struct {
	*extended
	spec   *FlattenSpec
	fields []codec.Field
	given  map[string]int
}

// part is a field of the element.
func (e *elements) part(_ string, p pipeline.Path) (slot int, kind pipeline.Kind, err error) {
	if p[0].Name == "" && len(e.spec.Fields) > 0 {
		return 0, 0, fmt.Errorf("the elements of %s are declared as objects", e.what)
	}
	if kind, err = e.declared(p); err != nil {
		return 0, 0, err
	}
	key := p.String()
	slot, ok := e.given[key]
	if !ok {
		slot = e.give(-1, kind)
		e.given[key] = slot
		e.fields = append(e.fields, codec.Field{Path: slices.Clone(p), Slot: slot, Kind: kind})
	}
	return slot, kind, nil
}

// declared is the kind of a part.
func (e *elements) declared(p pipeline.Path) (pipeline.Kind, error) {
	text := p.String()
	var names []string
	for _, f := range e.spec.Fields {
		if f.Name.Value == text {
			return f.Kind, nil
		}
		inside := strings.TrimPrefix(text, f.Name.Value)
		if inside != text && (inside[0] == '.' || inside[0] == '[') && !f.Scalar && (f.Kind == pipeline.JSON || f.Kind == pipeline.Null) {
			return pipeline.Null, nil
		}
		names = append(names, e.spec.As.Value+"."+f.Name.Value)
	}
	if len(names) > 0 {
		return 0, fmt.Errorf("unknown field %s.%s; the fields of an element of %s are %s", e.spec.As, text, e.what, strings.Join(names, ", "))
	}
	return pipeline.Null, nil
}

// Names has the declared parts as well, to suggest them.
func (e *elements) Names() []string {
	names := e.extended.Names()
	for _, f := range e.spec.Fields {
		names = append(names, e.spec.As.Value+"."+f.Name.Value)
	}
	return names
}

func (c *compiler) flatten(b *built, in *edge) bool {
	f := b.spec.Flatten
	array, ok := c.arrayOf(f, in.scope)
	if !ok {
		return false
	}
	e := &elements{extended: newExtended(stepName(b.spec), in.scope), spec: f, given: map[string]int{}}
	e.parts = e.part
	element, ok := c.extend(e.extended, f.As, f.Pos, pipeline.Null)
	if !ok {
		return false
	}
	config := ops.FlattenConfig{Array: array, IndexSlot: -1, ElementsMax: f.ElementsMax, Objects: len(f.Fields) > 0}
	if f.Index.Value != "" {
		if config.IndexSlot, ok = c.extend(e.extended, f.Index, f.Pos, pipeline.Int); !ok {
			return false
		}
	}
	e.fields = append(e.fields, codec.Field{Slot: element})
	for _, d := range f.Fields {
		p, _ := pipeline.ParsePath(d.Name.Value)
		slot, _, err := e.part("", p)
		if err != nil {
			c.problems.Add(d.Name.Pos, "", "", "flatten: %s", err)
			return false
		}
		if d.Scalar {
			config.Scalars = append(config.Scalars, ops.ElementScalar{Slot: slot, Name: d.Name.Value})
		}
	}
	if f.Time.Value != "" {
		if config.Time, ok = c.elementTime(b, e, in); !ok {
			return false
		}
	}
	b.validate = config.Validate
	b.out = []edge{{scope: e, timed: in.timed}}
	b.new = func() pipeline.Operator {
		config := config
		config.Carry, config.Fields = e.mapping, e.fields
		return ops.NewFlatten(config)
	}
	b.params = func() string {
		text := fmt.Sprintf("field %q as %q index %q limit %d time %q %s %d %d", f.Field, f.As, f.Index, f.ElementsMax, f.Time, f.Unit, f.MinMs, f.MaxMs)
		for _, d := range f.Fields {
			text += fmt.Sprintf("\nfield %q %s scalar %v", d.Name, d.Kind, d.Scalar)
		}
		return text
	}
	return true
}

// arrayOf is the slot of the field that is flattened.
func (c *compiler) arrayOf(f *FlattenSpec, in scope) (slot int, ok bool) {
	if f.Field.Value == "" {
		return 0, false
	}
	p, err := pipeline.ParsePath(f.Field.Value)
	if err != nil {
		c.problems.Add(f.Field.Pos, "", "a field such as values or motor.phases", "flatten: %s", err)
		return 0, false
	}
	slot, kind, err := in.Field(p)
	if err != nil {
		c.problems.Add(f.Field.Pos, suggest.Nearest(f.Field.Value, in.Names()), "", "flatten: %s", err)
		return 0, false
	}
	if kind != pipeline.Null && kind != pipeline.JSON {
		c.problems.Add(f.Field.Pos, "", "an array: declare it as json", "flatten: the field %s is %s", f.Field, kind)
		return 0, false
	}
	return slot, true
}

// elementTime makes the time that is read from an element.
func (c *compiler) elementTime(b *built, e *elements, in *edge) (t *ops.ElementTime, ok bool) {
	f := b.spec.Flatten
	if !in.timed {
		c.noTime(b.spec, f.Time.Pos)
		return nil, false
	}
	p, err := pipeline.ParsePath(f.Time.Value)
	if err != nil {
		c.problems.Add(f.Time.Pos, "", "a field of the element such as t", "flatten: time: %s", err)
		return nil, false
	}
	slot, kind, err := e.part("", p)
	if err != nil {
		c.problems.Add(f.Time.Pos, "", "", "flatten: time: %s", err)
		return nil, false
	}
	unit, err := codec.ParseUnit(f.Unit.Value)
	if err != nil {
		return nil, false // said where the setting was read
	}
	if unit == codec.RFC3339 && kind != pipeline.Null && kind != pipeline.String || kind == pipeline.Bool || kind == pipeline.JSON {
		c.problems.Add(f.Time.Pos, "", "numbers, or text for rfc3339", "flatten: the field %s is %s, it cannot be a time in %s", f.Time, kind, unit)
		return nil, false
	}
	return &ops.ElementTime{Slot: slot, OutSlot: e.add(metaTime, pipeline.Int), Unit: unit, MinMs: f.MinMs, MaxMs: f.MaxMs}, true
}

// CastTypes are what a field can be cast to.
var CastTypes = []string{"bool", "int", "uint", "float", "string"}

func (c *compiler) cast(b *built, in *edge) bool {
	e := newExtended(stepName(b.spec), in.scope)
	e.instead, b.narrow = true, true
	var columns []ops.CastColumn
	text, ok := "", true
	for _, f := range b.spec.Cast.Fields {
		if f.Type == "" {
			return false // said where the setting was read
		}
		function := f.Type
		if f.Type == "uint" {
			function = "int"
		}
		prefix := function + "("
		prog := c.composed("cast "+f.Name.Value, f.Name, prefix+f.Name.Value+")", len(prefix), in.scope, nil)
		if prog == nil {
			ok = false
			continue
		}
		columns = append(columns, ops.CastColumn{Slot: e.add(f.Name.Value, prog.Kind()), Prog: prog, Uint: f.Type == "uint", Name: f.Name.Value})
		b.programs = append(b.programs, prog)
		text += fmt.Sprintf("%s=%s %s\n", f.Name, f.Type, prog)
	}
	if !ok || len(columns) == 0 {
		return false
	}
	b.out = []edge{{scope: e, timed: in.timed}}
	b.new = func() pipeline.Operator { return ops.NewCast(ops.CastConfig{Carry: e.mapping, Columns: columns}) }
	b.params = func() string { return strings.TrimSuffix(text, "\n") }
	return true
}

func (c *compiler) split(b *built, in *edge) bool {
	s := b.spec.Split
	b.narrow = true
	if s.Share {
		return c.share(b, in)
	}
	var conditions []*expr.Program
	text := ""
	for _, p := range s.Ports {
		prog := c.expression("split "+p.Name.Value, p.Expr, in.scope, condition)
		if prog == nil {
			return false
		}
		conditions = append(conditions, prog)
		text += fmt.Sprintf("%s=%s\n", p.Name, prog)
	}
	if len(conditions) == 0 {
		return false
	}
	if i := repeated(conditions); i >= 0 {
		c.problems.Add(s.Ports[i].Expr.Pos, "", "a row goes to the first output whose condition is true", "%s: no row reaches %s, an output before it has the same condition", stepName(b.spec), s.Ports[i].Name)
		return false
	}
	b.programs = conditions
	for range len(conditions) + 1 {
		b.out = append(b.out, *in)
	}
	b.new = func() pipeline.Operator { return ops.NewSplit(conditions) }
	b.params = func() string { return strings.TrimSuffix(text, "\n") }
	return true
}

func (c *compiler) share(b *built, in *edge) bool {
	s := b.spec.Split
	keys, ok := c.fieldKeys("on", s.On, in.scope)
	if !ok || len(keys) == 0 || s.Parts == 0 {
		return false // said where the setting was read
	}
	config := ops.ShareConfig{Key: slotsOf(keys), Parts: s.Parts}
	b.validate = config.Validate
	b.out = []edge{*in, *in}
	b.new = func() pipeline.Operator { return ops.NewShare(config) }
	b.params = func() string { return fmt.Sprintf("share %d on %s", s.Parts, keyText(keys)) }
	return true
}
