package plan

import (
	"fmt"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/join"
)

// Joins are the parts of a step that pipeline/join has.
type Joins struct {
	Join   *JoinSpec
	Lookup *LookupSpec
}

// Kinds of these steps.
const (
	KindJoin   = "join"
	KindLookup = "lookup"
)

func (j *Joins) given() (kinds []string) {
	if j.Join != nil {
		kinds = append(kinds, KindJoin)
	}
	if j.Lookup != nil {
		kinds = append(kinds, KindLookup)
	}
	return kinds
}

// JoinSpec joins the rows of two inputs. Exactly one of Within, Window and Latest is given.
type JoinSpec struct {
	Pos    Pos
	On     []OnSpec
	Type   Text // inner, left, full; "": inner
	Within *WithinSpec
	Window *JoinWindowSpec
	Latest bool
	Select *SelectSpec
}

// OnSpec is a part of the key: the field of the left input, and that of the right one.
type OnSpec struct{ Left, Right Text }

// WithinSpec are the bounds of an interval join.
type WithinSpec struct {
	Pos               Pos
	BeforeMs, AfterMs int64
}

// JoinWindowSpec are the windows of a window join.
type JoinWindowSpec struct {
	Pos                       Pos
	SizeMs, SlideMs, OffsetMs int64 // SlideMs == SizeMs: tumbling
	GapMs                     int64 // session, instead of the others
	Split                     bool  // sessions that touch stay apart
	// As written; their reader makes the above of them.
	TumblingMs int64
	Touching   string
}

// join compiles a join; which one is told by the part that is given.
func (c *compiler) join(b *built, inputs []*edge) bool {
	s := b.spec.Join
	mode := s.mode()
	if mode == "" || len(inputs) != 2 || b.spec.From[0].Value == b.spec.From[1].Value {
		return false // said
	}
	typ, err := join.ParseType(orElse(s.Type.Value, "inner"))
	if err != nil {
		return false // said where the setting was read
	}
	ok := true
	if mode == "latest" && typ == join.Full {
		c.problems.Add(s.Type.Pos, "", "a latest-value join is inner or left: a right row alone makes no row", "%s is a full join with the latest value", stepName(b.spec))
		ok = false
	}
	if mode == "window" && b.spec.TTLNs != nil {
		c.problems.Add(b.spec.Pos, "", "its rows go when their window has fired; max_keys bounds them", "%s is a window join, it has no ttl", stepName(b.spec))
		ok = false
	}
	if mode != "latest" {
		for i, in := range inputs {
			if !in.timed {
				c.problems.Add(b.spec.From[i].Pos, "", "give every source before it the setting time, or join with latest: true", "%s joins by event time, the rows of %s have none", stepName(b.spec), b.spec.From[i])
				ok = false
			}
		}
	}
	sides := [2]scope{inputs[0].scope, inputs[1].scope}
	keys, good := c.joinKeys(b.spec, sides)
	if !ok || !good {
		return false
	}
	j := newJoined(stepName(b.spec), sides, keys, mode == "window")
	t, columns, text, ok := c.joinColumns(b, j)
	if !ok {
		return false
	}
	b.stateful, b.fixed = true, t
	b.out = []edge{{scope: t, timed: inputs[0].timed}}
	if mode == "latest" {
		b.clockless = []bool{false, true}
	} else {
		b.out = append(b.out, b.out[0])
	}
	out := keyOut(keys, j, columns)
	b.keyed = &Keyed{In: keySlots(keys), Out: make([][]int, len(b.out)), StateKey: stateKeyWhole}
	for port := range b.keyed.Out {
		b.keyed.Out[port] = out
	}
	c.operatorOf(b, j, joinParts{typ: typ, columns: columns, width: t.width(), keys: keys})
	b.params = func() string {
		return fmt.Sprintf("%s %s on %s ttl %d max_keys %d\nleft %q right %q\n%s",
			s.text(), typ, onText(keys), c.joinTTL(b.spec), c.maxKeys(b.spec), j.keptNames(join.Left), j.keptNames(join.Right), strings.Join(text, "\n"))
	}
	return true
}

// joinParts are what all joins share.
type joinParts struct {
	typ     join.Type
	columns []join.Column
	width   int
	keys    []joinKey
}

// operatorOf sets new and validate. What an operator keeps is known when all slots are given out: it is made then.
func (c *compiler) operatorOf(b *built, j *joined, parts joinParts) {
	s, maxKeys, ttl := b.spec.Join, c.maxKeys(b.spec), c.joinTTL(b.spec)
	sides := func() (sides [2]join.Side) {
		for side := range sides {
			sides[side].Keep = j.keep[side]
			for _, k := range parts.keys {
				sides[side].Key = append(sides[side].Key, k.slots[side])
			}
		}
		return sides
	}
	output := func() join.Output { return join.Output{Fields: j.fields, Columns: parts.columns, Width: parts.width} }
	switch s.mode() {
	case "within":
		config := func() join.IntervalConfig {
			return join.IntervalConfig{Sides: sides(), Type: parts.typ, BeforeMs: s.Within.BeforeMs, AfterMs: s.Within.AfterMs, Output: output(), MaxKeys: maxKeys, TTL: ttl}
		}
		b.validate = func() error { return config().Validate() }
		b.new = func() pipeline.Operator { return join.NewInterval(config()) }
	case "window":
		w := s.Window
		windows := join.Windows{SizeMs: w.SizeMs, SlideMs: w.SlideMs, OffsetMs: w.OffsetMs, GapMs: w.GapMs, Touching: w.GapMs > 0 && !w.Split}
		config := func() join.WindowedConfig {
			return join.WindowedConfig{Sides: sides(), Type: parts.typ, Windows: windows, Output: output(), MaxKeys: maxKeys}
		}
		b.validate = func() error { return config().Validate() }
		b.new = func() pipeline.Operator { return join.NewWindowed(config()) }
	default:
		config := func() join.LatestConfig {
			return join.LatestConfig{Sides: sides(), Type: parts.typ, Output: output(), MaxKeys: maxKeys, TTL: ttl}
		}
		b.validate = func() error { return config().Validate() }
		b.new = func() pipeline.Operator { return join.NewLatest(config()) }
	}
}

// mode tells which kind of join it is.
func (s *JoinSpec) mode() string {
	switch {
	case s.Within != nil:
		return "within"
	case s.Window != nil:
		return "window"
	case s.Latest:
		return "latest"
	}
	return ""
}

// text writes what joins which rows canonically.
func (s *JoinSpec) text() string {
	switch w := s.Window; s.mode() {
	case "within":
		return fmt.Sprintf("within %d before %d after", s.Within.BeforeMs, s.Within.AfterMs)
	case "window":
		return fmt.Sprintf("window %d slide %d offset %d session %d split %v", w.SizeMs, w.SlideMs, w.OffsetMs, w.GapMs, w.Split)
	}
	return "latest"
}

// joinTTL: the rows of an interval join go by the watermark, so that the pipeline's ttl is not for them; the latest values only by a ttl.
func (c *compiler) joinTTL(s *StepSpec) int64 {
	if s.Join.Latest {
		return c.ttl(s)
	}
	return ownTTL(s)
}

func (j *joined) keptNames(side int) []string {
	names, slots := make([]string, len(j.keep[side])), slotNames(j.sides[side])
	for i, slot := range j.keep[side] {
		names[i] = slots[slot]
	}
	return names
}

// joinColumns makes the columns of the rows that come out: those of select, or all of the left and then of the right input.
func (c *compiler) joinColumns(b *built, j *joined) (t *table, columns []join.Column, text []string, ok bool) {
	t = &table{what: stepName(b.spec)}
	if b.spec.Join.Select == nil {
		ok = c.allColumns(b.spec, j, t)
		for i, name := range t.Names() {
			text = append(text, name+"="+j.names[i])
		}
		return t, nil, text, ok
	}
	ok = true
	for _, col := range b.spec.Join.Select.Columns {
		prog := c.expression("column "+col.Name.Value, col.Expr, j, nil)
		if prog == nil {
			ok = false
			continue
		}
		slot, good := c.column(t, col.Name.Value, prog.Kind(), col.Name.Pos)
		ok = ok && good
		columns = append(columns, join.Column{Slot: slot, Prog: prog})
		b.programs = append(b.programs, prog)
		text = append(text, col.Name.Value+"="+prog.String())
	}
	return t, columns, text, ok && len(columns) > 0
}

// allColumns gives the rows every field of both inputs. A key field of one name is one column.
func (c *compiler) allColumns(s *StepSpec, j *joined, t *table) (ok bool) {
	ok = true
	from := map[string]string{} // column -> what it is of
	var twice []string
	if j.windows {
		for _, name := range []string{ColumnStart, ColumnEnd} {
			j.bound(name)
			t.add(name, pipeline.Int)
			from[name] = name
		}
	}
	for side, in := range j.sides {
		paths, all := known(in)
		if !all {
			c.problems.Add(s.From[side].Pos, "", "name the columns in the join, as in select: {temp: left.temp, humidity: right.humidity}, or declare the fields of the source",
				"%s: the fields of %s are not all known", stepName(s), s.From[side])
			ok = false
			continue
		}
		for _, p := range paths {
			name, path, key := columnName(p), sideNames[side]+"."+p.String(), j.shared(side, p)
			if key != nil && side == join.Right {
				continue // it is there
			}
			if first, have := from[name]; have {
				if len(twice) == 0 {
					twice = append(twice, name, first, path)
				} else {
					twice = append(twice, name)
				}
				continue
			}
			from[name] = path
			if key != nil {
				t.add(name, j.kinds[j.key(*key)])
			} else if _, kind, err := j.ofSide(side, p); err == nil {
				t.add(name, kind)
			}
		}
	}
	if len(twice) > 0 {
		names := append(twice[:1:1], twice[3:]...)
		c.problems.Add(s.Join.Pos, "", fmt.Sprintf("name the columns in the join's select, as in select: {%s: %s, other: %s}", twice[0], twice[1], twice[2]),
			"%s would have two columns of the name %s, one of each input", stepName(s), strings.Join(names, ", "))
	}
	return ok && len(twice) == 0
}

// shared gives the key that a field of one side is, when both sides call it so.
func (j *joined) shared(side int, p pipeline.Path) *joinKey {
	for i := range j.on {
		if j.on[i].shared && j.on[i].paths[side] == p.String() {
			return &j.on[i]
		}
	}
	return nil
}

func orElse(text, other string) string {
	if text == "" {
		return other
	}
	return text
}

var _ expr.Env = (*joined)(nil)
