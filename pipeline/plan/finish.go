package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
)

// finish numbers the parts and makes the graph; every slot has been given out.
func (c *compiler) finish() *Graph {
	g := &Graph{Name: c.spec.Name.Value, Parallelism: c.spec.Parallelism}
	number := make([]int, len(c.origins)) // of the sources that are read
	for i, o := range c.origins {
		if o == nil {
			continue
		}
		number[i] = len(g.Sources)
		g.Sources = append(g.Sources, o.finish())
	}
	ref := func(t target) Ref {
		if t.step < 0 {
			return Ref{Source: number[t.source], Step: -1}
		}
		return Ref{Step: c.rank[t.step], Port: t.port}
	}
	g.Steps = make([]*Step, len(c.steps))
	for i, b := range c.steps {
		step := b.finish()
		step.PortNames = c.ports(b.spec)
		for _, t := range c.stepInputs[i] {
			step.Inputs = append(step.Inputs, ref(t))
		}
		g.Steps[c.rank[i]] = step
		if b.validate != nil && !b.spec.Flawed { // what could not be read was said
			if err := b.validate(); err != nil {
				c.problems.Add(b.spec.Pos, "", "", "%s: %s", stepName(b.spec), err)
			}
		}
	}
	for i, b := range c.sinks {
		g.Sinks = append(g.Sinks, &Sink{
			UID: b.spec.UID.Value, From: ref(*c.sinkInput[i]), Columns: b.columns, Whole: b.whole, Table: b.table, Points: b.points, Commit: b.commit, Deterministic: b.sure, Spec: b.spec,
		})
	}
	g.Tasks = cut(g)
	g.Hash = hash(g)
	return g
}

func (b *built) finish() *Step {
	s := &Step{
		UID: b.spec.UID.Value, Kind: b.kind, Ports: len(b.out), Width: b.out[0].scope.width(), New: b.new,
		Deterministic: b.deterministic(), Behaviour: behaviours[b.kind], Stateful: b.stateful, Clockless: b.clockless, Was: b.spec.Was.Value, Params: b.params(),
	}
	if b.fixed != nil {
		s.Columns = slices.Clone(b.fixed.cols)
	}
	for _, o := range b.out {
		names := slotNames(o.scope)
		for i, n := range names {
			names[i] = strings.TrimPrefix(n, "{")
		}
		s.Names = append(s.Names, names)
	}
	if e, behind := extendedOf(b.out[0].scope), kinds[b.kind].adds; behind && e != nil {
		s.Added = slices.Clone(e.own)
	}
	s.Keyed, s.Carries, s.Narrow = b.keyed, b.carries(), b.narrow
	s.Stateless = len(b.in) == 1 && !b.stateful && pipeline.IsTimeless(b.new())
	return s
}

func (o *origin) finish() *Source {
	s := o.source
	s.Width = o.next
	for _, name := range slices.SortedFunc(keysOf(o.slots), func(a, b string) int { return cmp.Compare(o.slots[a], o.slots[b]) }) {
		s.Columns = append(s.Columns, Column{Name: strings.TrimPrefix(name, "{"), Slot: o.slots[name]})
	}
	for _, f := range o.fields {
		s.Columns[f.Slot].Kind = f.Kind
	}
	for _, c := range s.Captures {
		s.Columns[c.Slot].Kind = pipeline.String
	}
	for _, m := range s.Meta {
		s.Columns[m.Slot].Kind = metaKinds[m.Name]
	}
	decode := o.spec.Decode
	if len(decode) == 0 {
		decode = []DecodeSpec{{As: Text{Value: DecodeJSON}}}
	}
	for _, d := range decode {
		fields, whole := o.decoded(d.As.Value), o.whole
		t := TopicDecoder{
			Topic: d.Topic.Value, As: d.As.Value, Params: d.params(), New: func() codec.Decoder { return newDecoder(&d, fields, whole) },
			Ordered: !slices.Contains(unordered, d.As.Value),
		}
		if d.As.Value == DecodeSparkplug && d.Rebirth {
			t.RebirthEveryMs = max(d.RebirthEveryMs, 1)
		}
		s.Decoders = append(s.Decoders, t)
	}
	return s
}

// unordered are the decodings in which a message says all there is to know about itself.
var unordered = []string{DecodeJSON, DecodeCBOR, DecodeText, DecodeNumber, DecodeBytes, DecodeCSV, DecodeInflux}

func keysOf(m map[string]int) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// decoded are the fields that a decoder fills. The payload decoders of one source share the slots.
func (o *origin) decoded(as string) []codec.Field {
	fields := slices.Clone(o.fields)
	for i := range fields {
		if len(fields[i].Path) == 1 && fields[i].Path[0].Name == codec.ValueField {
			fields[i].Kind = decodedValueKind(as, fields[i].Kind)
		}
	}
	return fields
}

// decodedValueKind is the kind of the field value that a decoder gives, where the config declares `declared`.
func decodedValueKind(as string, declared pipeline.Kind) pipeline.Kind {
	switch as {
	case DecodeText:
		if declared == pipeline.Null {
			return pipeline.String
		}
	case DecodeNumber:
		if declared != pipeline.Int {
			return pipeline.Float
		}
	case DecodeBytes:
		return pipeline.Bytes
	}
	return declared
}

// params is the canonical form of what a decoder needs besides its name.
func (d *DecodeSpec) params() string {
	switch {
	case d.As.Value == DecodeSparkplug && d.Rows == RowsMetric:
		return " rows metric"
	case d.As.Value != DecodeCSV:
		return ""
	}
	return fmt.Sprintf(" columns %q separator %q", textsOf(d.Columns), d.separator())
}

func (d *DecodeSpec) separator() rune {
	switch d.Separator {
	case "":
		return ','
	case "tab":
		return '\t'
	}
	return rune(d.Separator[0])
}

func textsOf(list []Text) []string {
	texts := make([]string, len(list))
	for i, t := range list {
		texts[i] = t.Value
	}
	return texts
}

func newDecoder(d *DecodeSpec, fields []codec.Field, whole int) codec.Decoder {
	switch d.As.Value {
	case DecodeCBOR:
		return codec.NewCBOR(fields, whole, codec.Default())
	case DecodeText, DecodeNumber:
		return codec.NewText(fields, whole, codec.Default())
	case DecodeBytes:
		return codec.NewBytes(fields, whole, codec.Default())
	case DecodeCSV:
		return codec.NewCSV(fields, whole, textsOf(d.Columns), d.separator(), codec.Default())
	case DecodeSparkplug:
		return codec.NewSparkplug(fields, whole, d.Rows == RowsMetric, codec.Default())
	case DecodeInflux:
		return codec.NewInflux(fields, whole, codec.Default())
	}
	return codec.NewJSON(fields, whole, codec.Default())
}

// layout writes the slots of a scope canonically.
func layout(s scope) string { return fmt.Sprintf("%q", slotNames(s)) }

// slotNames names the slots of a scope.
func slotNames(s scope) []string {
	names := make([]string, s.width())
	switch s := s.(type) {
	case *origin:
		for name, slot := range s.slots {
			names[slot] = name
		}
	case *merged:
		for name, slot := range s.slots {
			names[slot] = name
		}
	case *table:
		for _, c := range s.cols {
			names[c.Slot] = c.Name
		}
	case *extended:
		names = s.layout()
	case *elements:
		names = s.layout()
		for name, slot := range s.given {
			names[slot] = s.spec.As.Value + "." + name
		}
	}
	return names
}
