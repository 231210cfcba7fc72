package plan

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/join"
)

// sideNames are how a join's select names its inputs.
var sideNames = [2]string{"left", "right"}

// joined is the scope of the columns of a join: left.FIELD and right.FIELD, the key fields of one name, and the bounds of the window. Fields are
// given out as they are asked for, and the join keeps what was given out.
type joined struct {
	what    string
	sides   [2]scope
	on      []joinKey
	windows bool
	keep    [2][]int
	fields  []join.Field
	kinds   []pipeline.Kind
	names   []string // of the fields, for params
	slots   map[string]int
}

func newJoined(what string, sides [2]scope, on []joinKey, windows bool) *joined {
	return &joined{what: what, sides: sides, on: on, windows: windows, slots: map[string]int{}}
}

// kept gives the place of a slot of an input among those that the join keeps.
func (j *joined) kept(side, slot int) int {
	if i := slices.Index(j.keep[side], slot); i >= 0 {
		return i
	}
	j.keep[side] = append(j.keep[side], slot)
	return len(j.keep[side]) - 1
}

// field gives a field out, once.
func (j *joined) field(name string, kind pipeline.Kind, make func() join.Field) int {
	if slot, ok := j.slots[name]; ok {
		return slot
	}
	j.fields, j.kinds, j.names = append(j.fields, make()), append(j.kinds, kind), append(j.names, name)
	j.slots[name] = len(j.fields) - 1
	return len(j.fields) - 1
}

// key is the field of a key that has one name on both sides.
func (j *joined) key(k joinKey) int {
	return j.field(k.name, common(k.kinds[:]), func() join.Field {
		return join.Field{From: join.FromEither, Index: j.kept(join.Left, k.slots[join.Left]), Other: j.kept(join.Right, k.slots[join.Right])}
	})
}

func (j *joined) ofSide(side int, p pipeline.Path) (int, pipeline.Kind, error) {
	slot, kind, err := j.sides[side].Field(p)
	if err != nil {
		return 0, 0, err
	}
	from := [2]join.From{join.FromLeft, join.FromRight}[side]
	return j.field(sideNames[side]+"."+p.String(), kind, func() join.Field { return join.Field{From: from, Index: j.kept(side, slot)} }), kind, nil
}

func (j *joined) bound(name string) int {
	from := join.FromStart
	if name == ColumnEnd {
		from = join.FromEnd
	}
	return j.field(name, pipeline.Int, func() join.Field { return join.Field{From: from} })
}

// side tells which input a path names, -1 for none.
func side(p pipeline.Path) int {
	if len(p) < 2 || p[1].Name == "" {
		return -1
	}
	return slices.Index(sideNames[:], p[0].Name)
}

func (j *joined) Field(p pipeline.Path) (int, pipeline.Kind, error) {
	if s := side(p); s >= 0 {
		return j.ofSide(s, p[1:])
	}
	if err := j.lookup(p); err != nil {
		return 0, 0, err
	}
	name := p.String()
	for _, k := range j.on {
		if k.shared && k.name == name {
			slot := j.key(k)
			return slot, j.kinds[slot], nil
		}
	}
	return j.bound(name), pipeline.Int, nil
}

func (j *joined) lookup(p pipeline.Path) error {
	if s := side(p); s >= 0 {
		return j.sides[s].lookup(p[1:])
	}
	name := p.String()
	if slices.ContainsFunc(j.on, func(k joinKey) bool { return k.shared && k.name == name }) || j.windows && (name == ColumnStart || name == ColumnEnd) {
		return nil
	}
	return fmt.Errorf("unknown field %s; a join's columns name the side: left.%s or right.%s", name, name, name)
}

func (j *joined) Names() []string {
	var names []string
	for _, k := range j.on {
		if k.shared {
			names = append(names, k.name)
		}
	}
	if j.windows {
		names = append(names, ColumnStart, ColumnEnd)
	}
	for s, prefix := range sideNames {
		for _, n := range j.sides[s].Names() {
			names = append(names, prefix+"."+n)
		}
	}
	return names
}

func (j *joined) columns() ([]Column, int) { return nil, -1 }
func (j *joined) open() bool               { return false }
func (j *joined) width() int               { return len(j.fields) }

// known lists the fields of rows whose fields are all known; ok is false for others.
func known(s scope) (paths []pipeline.Path, ok bool) {
	add := func(p pipeline.Path) {
		if !slices.ContainsFunc(paths, func(have pipeline.Path) bool { return have.String() == p.String() }) {
			paths = append(paths, p)
		}
	}
	switch s := s.(type) {
	case *table:
		for _, c := range s.cols {
			add(pipeline.Path{{Name: c.Name}})
		}
		return paths, true
	case *origin:
		for _, c := range s.captures {
			add(pipeline.Path{{Name: c.Name}})
		}
		for _, f := range s.spec.Fields {
			p, err := pipeline.ParsePath(f.Name.Value)
			if err != nil {
				return nil, false // said where the source was checked
			}
			add(p)
		}
		return paths, len(s.spec.Fields) > 0
	case *merged:
		for _, in := range s.inputs {
			of, ok := known(in)
			if !ok {
				return nil, false
			}
			for _, p := range of {
				add(p)
			}
		}
		return paths, true
	case *extended:
		of, ok := known(s.in)
		if !ok {
			return nil, false
		}
		for _, p := range of {
			add(p)
		}
		for _, c := range s.shown() {
			add(pipeline.Path{{Name: c.Name}})
		}
		return paths, true
	}
	return nil, false
}
