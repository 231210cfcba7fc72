package plan

import (
	"errors"
	"slices"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/suggest"
)

var (
	numbers   = []pipeline.Kind{pipeline.Int, pipeline.Uint, pipeline.Float}
	condition = []pipeline.Kind{pipeline.Bool}
)

// expression compiles text over the rows of in; what names it in messages, kinds is what it may give (nil: anything). nil:
// its problem is noted.
func (c *compiler) expression(what string, text Text, in scope, kinds []pipeline.Kind) *expr.Program {
	if text.Value == "" {
		return nil // said where the setting was read
	}
	return c.composed(what, text, text.Value, 0, in, kinds)
}

// composed compiles src, in which text begins at byte start.
func (c *compiler) composed(what string, text Text, src string, start int, in scope, kinds []pipeline.Kind) *expr.Program {
	prog, err := expr.Compile(src, in)
	if err != nil {
		p := Problem{Pos: text.Pos, Found: what + ": " + err.Error()}
		var e *expr.Error
		if errors.As(err, &e) {
			p.Pos, p.Found, p.Suggest = text.At(max(0, e.Offset-start)), what+": "+e.Msg, e.Suggest
		}
		c.problems = append(c.problems, p)
		return nil
	}
	if k := prog.Kind(); kinds != nil && k != pipeline.Null && !slices.Contains(kinds, k) {
		allowed := "it must be a number"
		if kinds[0] == pipeline.Bool {
			allowed = "it must be a condition such as temp > 8"
		}
		c.problems.Add(text.Pos, "", allowed, "%s: %q is %s", what, text, k)
		return nil
	}
	fields, _ := expr.Fields(src)
	for _, p := range fields {
		c.warnNear(what, text.Pos, p, in)
	}
	return prog
}

// warnNear warns of a field that is taken from the payload though a capture of the topic has nearly its name.
func (c *compiler) warnNear(what string, at Pos, p pipeline.Path, in scope) {
	o, ok := in.(*origin)
	if !ok || len(p) != 1 || strings.HasPrefix(p[0].Name, "$") || o.captured(p) != nil || len(o.spec.Fields) > 0 {
		return
	}
	var names []string
	for _, capture := range o.captures {
		names = append(names, capture.Name)
	}
	if near := suggest.Nearest(p[0].Name, names); near != "" {
		c.warnings.Add(at, near, "", "%s: the field %s is taken from the payload", what, p[0].Name)
	}
}

// shorthand completes a condition such as "> 8" with the value that it is about.
func shorthand(value, cond Text) (src string, start int) {
	for _, mark := range []string{"<", ">", "==", "!="} {
		if strings.HasPrefix(strings.TrimSpace(cond.Value), mark) {
			prefix := "(" + value.Value + ") "
			return prefix + cond.Value, len(prefix)
		}
	}
	return cond.Value, 0
}

// key is a by field: its place among the rows that come in and its column in those that go out.
type key struct {
	slot int
	kind pipeline.Kind
	name string // of the column
	path string
}

// keys resolves the by fields.
func (c *compiler) keys(s *StepSpec, in scope) (keys []key, ok bool) {
	return c.fieldKeys("by", s.By, in)
}

// fieldKeys resolves fields that make a key; setting names where they stand.
func (c *compiler) fieldKeys(setting string, fields []Text, in scope) (keys []key, ok bool) {
	ok = true
	for _, by := range fields {
		p, err := pipeline.ParsePath(by.Value)
		if err != nil {
			c.problems.Add(by.Pos, "", "a field such as device, motor.id or $topic", "%s: %s", setting, err)
			ok = false
			continue
		}
		slot, kind, err := in.Field(p)
		if err != nil {
			c.problems.Add(by.Pos, suggest.Nearest(by.Value, in.Names()), "", "%s: %s", setting, err)
			ok = false
			continue
		}
		c.warnNear(setting, by.Pos, p, in)
		k := key{slot: slot, kind: kind, name: columnName(p), path: p.String()}
		if slices.ContainsFunc(keys, func(o key) bool { return o.path == k.path }) {
			c.problems.Add(by.Pos, "", "each field stands once", "%s: %q is given twice", setting, by)
			ok = false
			continue
		}
		keys = append(keys, k)
	}
	return keys, ok
}

// columnName is the column that a field becomes: the last part of its path, without $.
func columnName(p pipeline.Path) string {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i].Name != "" {
			return strings.TrimPrefix(p[i].Name, "$")
		}
	}
	return p.String()
}
