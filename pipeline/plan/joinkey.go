package plan

import (
	"fmt"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/join"
	"github.com/weirstream/weir/pipeline/suggest"
)

// joinKey is a resolved part of the key.
type joinKey struct {
	slots  [2]int
	kinds  [2]pipeline.Kind
	paths  [2]string
	name   string // of the column
	shared bool   // both sides call it so: the joined rows have one column for it
}

func onText(keys []joinKey) string {
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = k.paths[join.Left] + "=" + k.paths[join.Right]
	}
	return strings.Join(parts, ",")
}

// joinKeys resolves the fields of on; ok is false when there is a problem, which is noted.
func (c *compiler) joinKeys(s *StepSpec, sides [2]scope) (keys []joinKey, ok bool) {
	ok = len(s.Join.On) > 0
	for _, on := range s.Join.On {
		k := joinKey{paths: [2]string{on.Left.Value, on.Right.Value}}
		good := true
		for side, field := range [2]Text{on.Left, on.Right} {
			p, slot, kind, found := c.keyField(field, sides[side], fmt.Sprintf("on, %s input %s", sideNames[side], s.From[side]))
			if !found {
				good = false
				continue
			}
			k.slots[side], k.kinds[side] = slot, kind
			if name := columnName(p); side == join.Left {
				k.name = name
			} else {
				k.shared = k.name == name
			}
		}
		if good && !matchable(k.kinds[join.Left], k.kinds[join.Right]) {
			c.problems.Add(on.Left.Pos, "", "cast one of them in a step before, as in cast: {"+on.Right.Value+": "+k.kinds[join.Left].String()+"}",
				"%s would never find a partner: %s of %s is %s, %s of %s is %s", stepName(s), on.Left, s.From[join.Left], k.kinds[join.Left], on.Right, s.From[join.Right], k.kinds[join.Right])
			good = false
		}
		keys, ok = append(keys, k), ok && good
	}
	return keys, ok
}

// keyField resolves a field of on.
func (c *compiler) keyField(field Text, in scope, what string) (p pipeline.Path, slot int, kind pipeline.Kind, ok bool) {
	p, err := pipeline.ParsePath(field.Value)
	if err != nil || len(p) == 0 {
		c.problems.Add(field.Pos, "", "a field such as device or motor.id", "on: %q is no field", field)
		return nil, 0, 0, false
	}
	slot, kind, err = in.Field(p)
	if err != nil {
		c.problems.Add(field.Pos, suggest.Nearest(field.Value, in.Names()), "", "%s: %s", what, err)
		return nil, 0, 0, false
	}
	c.warnNear("on", field.Pos, p, in)
	return p, slot, kind, true
}

// matchable tells whether values of two kinds can be equal as keys. Null: only the run tells.
func matchable(a, b pipeline.Kind) bool {
	number := func(k pipeline.Kind) bool { return k == pipeline.Int || k == pipeline.Uint || k == pipeline.Float }
	return a == pipeline.Null || b == pipeline.Null || a == b || number(a) && number(b)
}

// keySlots are the slots of the key, per input.
func keySlots(keys []joinKey) [][]int {
	slots := make([][]int, 2)
	for side := range slots {
		for _, k := range keys {
			slots[side] = append(slots[side], k.slots[side])
		}
	}
	return slots
}

// keyOut are the slots in which the key comes out, of whichever side; nil when not all of it does.
func keyOut(keys []joinKey, j *joined, columns []join.Column) (out []int) {
	for _, k := range keys {
		field, there := j.slots[k.name]
		if !k.shared || !there {
			return nil
		}
		at := field
		if columns != nil {
			at = -1
			for _, c := range columns {
				if slot, bare := c.Prog.Slot(); bare && slot == field {
					at = c.Slot
					break
				}
			}
		}
		if at < 0 {
			return nil
		}
		out = append(out, at)
	}
	return out
}
