package plan

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/join"
	"github.com/weirstream/weir/pipeline/suggest"
)

// LookupSpec adds columns of a file to each row. Data is what the reader of the config found in the file: the plan reads none.
type LookupSpec struct {
	Pos     Pos
	File    Text
	Path    string // where it was read, for messages
	Data    []byte
	Unread  bool     // it could not be read, which was said
	On      []OnSpec // field of the row, column of the file
	Columns []Text   // of the file; none: all that are not in On
	Missing Text     // null, drop, dead; "": null
}

// find compiles a lookup.
func (c *compiler) find(b *built, in *edge) bool {
	s := b.spec.Lookup
	if s.File.Value == "" || s.Unread {
		return false
	}
	t, err := join.Parse(s.File.Value, s.Data)
	if err != nil {
		c.tableProblem(s, err)
		return false
	}
	if len(t.Columns) == 0 { // JSON: the columns are the members of the objects
		c.problems.Add(s.File.Pos, "", "the columns of a JSON file are the members of its objects: it holds one row at least", "lookup: %s holds %s", s.File, emptiness(t))
		return false
	}
	missing, err := join.ParseMissing(orElse(s.Missing.Value, "null"))
	if err != nil {
		return false // said where the setting was read
	}
	key, columns, ok := c.tableKey(b.spec, t, in.scope)
	if !ok {
		return false
	}
	if err := t.By(columns); err != nil {
		c.tableProblem(s, err)
		return false
	}
	config := join.LookupConfig{Key: key, Table: t, Missing: missing}
	e := newExtended(stepName(b.spec), in.scope)
	var names []string
	for _, name := range c.taken(s, t, columns) {
		at := t.Column(name.Value)
		slot, good := c.extend(e, name, s.Pos, t.Kinds[at])
		config.Take, config.Slots = append(config.Take, at), append(config.Slots, slot)
		names, ok = append(names, name.Value), ok && good
	}
	if len(config.Take) == 0 || !ok {
		return false
	}
	b.out = []edge{{scope: e, timed: in.timed}}
	b.validate = config.Validate
	b.new = func() pipeline.Operator {
		config := config
		config.Carry = e.mapping
		return join.NewLookup(config)
	}
	b.params = func() string {
		return fmt.Sprintf("sha256 %x on %s columns %q missing %d", t.SHA256, lookupOnText(s.On), names, missing)
	}
	return true
}

func emptiness(t *join.Table) string {
	if t.Rows == 0 {
		return "no rows"
	}
	return "no columns"
}

// tableProblem notes what is wrong with the file, at its place in the file.
func (c *compiler) tableProblem(s *LookupSpec, err error) {
	var bad *join.TableError
	if errors.As(err, &bad) && bad.Line > 0 {
		c.problems.Add(Pos{File: s.Path, Line: bad.Line, Column: bad.Column}, "", "", "lookup: %s", bad.Msg)
		return
	}
	c.problems.Add(s.File.Pos, "", "", "lookup: %s: %s", s.File, err)
}

// tableKey resolves on.
func (c *compiler) tableKey(s *StepSpec, t *join.Table, in scope) (slots, columns []int, ok bool) {
	ok = len(s.Lookup.On) > 0
	for _, on := range s.Lookup.On {
		at := t.Column(on.Right.Value)
		if at < 0 {
			c.problems.Add(on.Right.Pos, suggest.Nearest(on.Right.Value, t.Columns), "its columns are "+strings.Join(t.Columns, ", "), "%s has no column %q", s.Lookup.File, on.Right)
			ok = false
		}
		_, slot, kind, found := c.keyField(on.Left, in, "on")
		if !found || at < 0 {
			ok = false
			continue
		}
		if !t.Textual() && !matchable(kind, t.Kinds[at]) {
			c.problems.Add(on.Left.Pos, "", "cast the field in a step before, as in cast: {"+on.Left.Value+": "+t.Kinds[at].String()+"}",
				"%s would find nothing: %s is %s, %s of %s is %s", stepName(s), on.Left, kind, on.Right, s.Lookup.File, t.Kinds[at])
			ok = false
		}
		slots, columns = append(slots, slot), append(columns, at)
	}
	return slots, columns, ok
}

// taken are the columns that rows get.
func (c *compiler) taken(s *LookupSpec, t *join.Table, key []int) (names []Text) {
	for _, name := range s.Columns {
		if t.Column(name.Value) < 0 {
			c.problems.Add(name.Pos, suggest.Nearest(name.Value, t.Columns), "its columns are "+strings.Join(t.Columns, ", "), "%s has no column %q", s.File, name)
			return nil
		}
	}
	if len(s.Columns) > 0 {
		return s.Columns
	}
next:
	for i, name := range t.Columns {
		for _, k := range key {
			if k == i {
				continue next
			}
		}
		if reason := CheckFieldName(name); reason != "" {
			c.problems.Add(s.Pos, "", "list the columns that are wanted in columns; "+FieldNameAllowed, "column %q of %s: %s", name, s.File, reason)
			return nil
		}
		names = append(names, Text{Value: name, Pos: s.Pos})
	}
	if len(names) == 0 {
		c.problems.Add(s.Pos, "", "a file with more columns than the key", "%s has only the columns of on: there is nothing to add", s.File)
	}
	return names
}

func lookupOnText(on []OnSpec) string {
	parts := make([]string, len(on))
	for i, o := range on {
		parts[i] = o.Left.Value + "=" + o.Right.Value
	}
	return strings.Join(parts, ",")
}
