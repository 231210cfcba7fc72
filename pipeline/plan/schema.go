package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/weirstream/weir/pipeline"
)

// ColumnChange is how a column differs that a source gave and gives.
type ColumnChange struct {
	Source string `json:"source"`
	Column string `json:"column"`
	Was    string `json:"was,omitempty"` // its type; "": the plan before had, or used, none of that name
	Is     string `json:"is,omitempty"`  // "": this plan has, or uses, none
	// Keys are the steps that keep state by it, where its type changed: rows of now do not find what is kept under the keys of before.
	Keys []string `json:"keys,omitempty"`
}

// String is a sentence.
func (c *ColumnChange) String() string {
	switch {
	case c.Was == "":
		return fmt.Sprintf("column %s (%s) is new", c.Column, c.Is)
	case c.Is == "":
		return fmt.Sprintf("column %s (%s) is gone", c.Column, c.Was)
	case len(c.Keys) > 0:
		return fmt.Sprintf("column %s was %s and is %s: it is a key of %s, and rows do not find what is kept under the keys of before", c.Column, c.Was, c.Is, strings.Join(c.Keys, ", "))
	}
	return fmt.Sprintf("column %s was %s and is %s", c.Column, c.Was, c.Is)
}

// SchemaChanges tells how the columns of the sources differ from those of a plan whose meaning is given, in the order of the plan; a source that only one of the two
// has is no change of a schema. It is for people: of a meaning that it cannot read it tells nothing.
func SchemaChanges(before string, g *Graph) (list []ColumnChange) {
	had := columnsOf(before)
	for i, s := range g.Sources {
		was, ok := had[s.Name]
		if !ok {
			continue
		}
		for _, c := range s.Columns {
			change := ColumnChange{Source: s.Name, Column: c.Name, Was: was[c.Name], Is: typeName(c.Kind.String())}
			delete(was, c.Name)
			if change.Was == change.Is {
				continue
			}
			if change.Was != "" {
				change.Keys = g.keyedBySlot(i, c.Slot)
			}
			list = append(list, change)
		}
		for _, name := range slices.Sorted(maps.Keys(was)) {
			list = append(list, ColumnChange{Source: s.Name, Column: name, Was: was[name]})
		}
	}
	return list
}

// keyedBySlot are the steps with state that a source's slot reaches as a part of their key, under its name or another.
func (g *Graph) keyedBySlot(source, slot int) (uids []string) {
	type edge struct{ step, port int } // of a source: -1, its number
	reached := map[edge][]int{{-1, source}: {slot}}
	for i, s := range g.Steps { // in plan order: inputs come before
		keyed := false
		for in, from := range s.Inputs {
			e := edge{from.Step, from.Port}
			if from.Step < 0 {
				e.port = from.Source
			}
			for _, at := range reached[e] {
				keyed = keyed || s.Keyed != nil && in < len(s.Keyed.In) && slices.Contains(s.Keyed.In[in], at)
				for port, carried := range s.Carries {
					if out := slices.Index(carried, at); out >= 0 {
						reached[edge{i, port}] = append(reached[edge{i, port}], out)
					}
				}
			}
		}
		if keyed && s.Stateful {
			uids = append(uids, s.UID)
		}
	}
	return uids
}

// columnsOf reads out of a meaning what type the columns of each source have.
func columnsOf(meaning string) map[string]map[string]string {
	all := map[string]map[string]string{}
	var of map[string]string
	for line := range strings.Lines(meaning) {
		line = strings.TrimSuffix(line, "\n")
		if rest, ok := strings.CutPrefix(line, "source "); ok {
			name, _ := unquoted(rest)
			of = map[string]string{}
			all[name] = of
		} else if rest, ok := strings.CutPrefix(line, " field "); ok && of != nil {
			name, kind := unquoted(rest)
			of[name] = typeName(strings.TrimSpace(kind))
		} else if !strings.HasPrefix(line, " ") {
			of = nil
		}
	}
	return all
}

// typeName is a kind as people know it: what is not declared is of the type that a message gives it.
func typeName(kind string) string {
	if kind == pipeline.Null.String() {
		return "not declared"
	}
	return kind
}

// unquoted takes the quoted text at the beginning; "": there is none.
func unquoted(s string) (text, rest string) {
	q, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", ""
	}
	if text, err = strconv.Unquote(q); err != nil {
		return "", ""
	}
	return text, s[len(q):]
}
