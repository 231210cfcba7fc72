package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
)

// Column is a named slot of the rows on an edge.
type Column struct {
	Name string
	Slot int
	Kind pipeline.Kind // Null: only the run tells
}

// scope is what the rows of an edge hold. Slots are given out as they are asked for: decoders extract only what the plan
// uses. It is the Env of the expressions of the steps behind the edge.
type scope interface {
	// Field implements expr.Env.
	Field(p pipeline.Path) (slot int, kind pipeline.Kind, err error)
	// Names implements expr.Namer.
	Names() []string
	// lookup tells whether Field would find p, without giving out a slot.
	lookup(p pipeline.Path) error
	// columns is what a sink writes; whole is the slot of the document, -1 for rows with fixed columns.
	columns() (cols []Column, whole int)
	// open: rows carry a document whose fields are not all known.
	open() bool
	width() int
}

// table is the scope of rows with fixed columns.
type table struct {
	what string // "step per-minute"
	cols []Column
}

func (t *table) add(name string, kind pipeline.Kind) int {
	t.cols = append(t.cols, Column{Name: name, Slot: len(t.cols), Kind: kind})
	return len(t.cols) - 1
}

func (t *table) lookup(p pipeline.Path) error {
	_, _, err := t.Field(p)
	return err
}

func (t *table) Field(p pipeline.Path) (int, pipeline.Kind, error) {
	for _, c := range t.cols {
		if c.Name != p[0].Name {
			continue
		}
		if len(p) > 1 {
			return 0, 0, fmt.Errorf("column %s of %s has no parts", c.Name, t.what)
		}
		return c.Slot, c.Kind, nil
	}
	if strings.HasPrefix(p[0].Name, "$") {
		return 0, 0, fmt.Errorf("%s stays behind at %s, whose columns are %s", p, t.what, strings.Join(t.Names(), ", "))
	}
	return 0, 0, fmt.Errorf("unknown field %s; the columns of %s are %s", p, t.what, strings.Join(t.Names(), ", "))
}

func (t *table) Names() []string {
	names := make([]string, len(t.cols))
	for i, c := range t.cols {
		names[i] = c.Name
	}
	return names
}

func (t *table) columns() ([]Column, int) { return t.cols, -1 }
func (t *table) open() bool               { return false }
func (t *table) width() int               { return len(t.cols) }

// payloadField is the meta field that holds the whole payload.
const payloadField = "$payload"

// metaKinds are the $fields of a source and their kinds.
var metaKinds = map[string]pipeline.Kind{
	MetaTopic: pipeline.String, MetaReceived: pipeline.Int, MetaQoS: pipeline.Int, MetaRetain: pipeline.Bool,
	MetaSource: pipeline.String, MetaPosition: pipeline.Int, metaTime: pipeline.Int, payloadField: pipeline.Null,
}

// metaTime is the event time in ms.
const metaTime = "$time"

// origin is the scope of a source's rows.
type origin struct {
	spec     *SourceSpec
	captures []LevelCapture
	source   *Source
	slots    map[string]int
	fields   []codec.Field // of the payload
	whole    int
	next     int
}

func newOrigin(spec *SourceSpec, captures []LevelCapture) *origin {
	return &origin{
		spec: spec, captures: captures, slots: map[string]int{}, whole: -1,
		source: &Source{Name: spec.Name.Value, TimeSlot: -1, QoS: spec.QoS},
	}
}

// slot gives a slot its number at the first use.
func (o *origin) slot(key string) (slot int, fresh bool) {
	if s, ok := o.slots[key]; ok {
		return s, false
	}
	o.slots[key] = o.next
	o.next++
	return o.next - 1, true
}

func (o *origin) captured(p pipeline.Path) *LevelCapture {
	if len(p) != 1 {
		return nil
	}
	for i := range o.captures {
		if o.captures[i].Name == p[0].Name {
			return &o.captures[i]
		}
	}
	return nil
}

func (o *origin) lookup(p pipeline.Path) error {
	name := p[0].Name
	if strings.HasPrefix(name, "$") {
		if _, known := metaKinds[name]; !known || len(p) > 1 {
			return fmt.Errorf("unknown field %s; those with $ are %s", p, strings.Join(metaNames(), ", "))
		}
		if name == metaTime && o.spec.Time == nil {
			return fmt.Errorf("$time needs the setting time of source %s", o.spec.Name.Value)
		}
		return nil
	}
	if o.captured(p) != nil {
		return nil
	}
	_, err := o.payloadKind(p)
	return err
}

// payloadKind is the declared kind of a field of the payload.
func (o *origin) payloadKind(p pipeline.Path) (pipeline.Kind, error) {
	if o.valueOnly() && (len(p) > 1 || p[0].Name != codec.ValueField) {
		return 0, fmt.Errorf("unknown field %s; source %s is decoded as %s, its payload is the field %s", p, o.spec.Name.Value, o.spec.Decode[0].As.Value, codec.ValueField)
	}
	if p[0].Name == codec.SparkplugField && o.sparkplug() {
		kinds := codec.SparkplugKinds()
		if kind, known := kinds[p.String()]; known {
			return kind, nil
		}
		return 0, fmt.Errorf("unknown field %s; those of a Sparkplug message are %s", p, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	if len(o.spec.Fields) == 0 {
		if columns := o.csvColumns(); columns != nil && !slices.Contains(columns, p.String()) {
			return 0, fmt.Errorf("unknown field %s; the columns of source %s are %s", p, o.spec.Name.Value, strings.Join(columns, ", "))
		}
		return pipeline.Null, nil
	}
	text := p.String()
	for _, f := range o.spec.Fields {
		if f.Name.Value == text {
			return f.Kind, nil
		}
		if inside := strings.TrimPrefix(text, f.Name.Value); inside != text && (inside[0] == '.' || inside[0] == '[') && (f.Kind == pipeline.JSON || f.Kind == pipeline.Null) {
			return pipeline.Null, nil
		}
	}
	return 0, fmt.Errorf("unknown field %s; the fields of source %s are %s", p, o.spec.Name.Value, strings.Join(o.Names(), ", "))
}

// sparkplug: a decoder gives what Sparkplug messages say of themselves.
func (o *origin) sparkplug() bool {
	return slices.ContainsFunc(o.spec.Decode, func(d DecodeSpec) bool { return d.As.Value == DecodeSparkplug })
}

// csvColumns are the fields of a source that is CSV alone; nil: others may come.
func (o *origin) csvColumns() (columns []string) {
	for _, d := range o.spec.Decode {
		if d.As.Value != DecodeCSV {
			return nil
		}
		columns = append(columns, textsOf(d.Columns)...)
	}
	return columns
}

// valueOnly: no decoder gives anything but the field value.
func (o *origin) valueOnly() bool {
	for _, d := range o.spec.Decode {
		if as := d.As.Value; as != DecodeText && as != DecodeNumber && as != DecodeBytes {
			return false
		}
	}
	return len(o.spec.Decode) > 0
}

func (o *origin) Field(p pipeline.Path) (int, pipeline.Kind, error) {
	if err := o.lookup(p); err != nil {
		return 0, 0, err
	}
	name := p[0].Name
	switch c := o.captured(p); {
	case name == payloadField:
		return o.document(), pipeline.Null, nil
	case strings.HasPrefix(name, "$"):
		slot, fresh := o.slot(name)
		switch {
		case fresh && name == metaTime:
			o.source.TimeSlot = slot
		case fresh:
			o.source.Meta = append(o.source.Meta, MetaSlot{Name: name, Slot: slot})
		}
		return slot, metaKinds[name], nil
	case c != nil:
		slot, fresh := o.slot("{" + name)
		if fresh {
			o.source.Captures = append(o.source.Captures, Capture{Level: c.Level, Slot: slot})
		}
		return slot, pipeline.String, nil
	}
	kind, _ := o.payloadKind(p)
	slot, fresh := o.slot(p.String())
	if fresh {
		o.fields = append(o.fields, codec.Field{Path: slices.Clone(p), Slot: slot, Kind: kind})
	}
	if kind == pipeline.Null && len(p) == 1 && name == codec.ValueField {
		kind = o.valueKind()
	}
	return slot, kind, nil
}

// valueKind is the kind of the field value when every decoder agrees.
func (o *origin) valueKind() pipeline.Kind {
	kind := pipeline.Null
	for i, d := range o.spec.Decode {
		k := decodedValueKind(d.As.Value, pipeline.Null)
		if i > 0 && k != kind {
			return pipeline.Null
		}
		kind = k
	}
	return kind
}

// document is the slot of the whole payload.
func (o *origin) document() int {
	slot, fresh := o.slot(payloadField)
	if fresh {
		o.whole = slot
	}
	return slot
}

func (o *origin) Names() []string {
	var names []string
	for _, c := range o.captures {
		names = append(names, c.Name)
	}
	for _, f := range o.spec.Fields {
		if !slices.Contains(names, f.Name.Value) {
			names = append(names, f.Name.Value)
		}
	}
	if o.valueOnly() && len(o.spec.Fields) == 0 {
		names = append(names, codec.ValueField)
	}
	if o.sparkplug() {
		names = slices.AppendSeq(names, maps.Keys(codec.SparkplugKinds()))
		slices.Sort(names)
	}
	if len(o.spec.Fields) == 0 {
		names = append(names, o.csvColumns()...)
	}
	for _, m := range metaNames() {
		if m != metaTime || o.spec.Time != nil {
			names = append(names, m)
		}
	}
	return names
}

func metaNames() []string {
	return []string{MetaTopic, metaTime, MetaReceived, MetaQoS, MetaRetain, MetaSource, MetaPosition, payloadField}
}

func (o *origin) columns() ([]Column, int) {
	var cols []Column
	for _, c := range o.captures {
		slot, kind, _ := o.Field(pipeline.Path{{Name: c.Name}})
		cols = append(cols, Column{Name: c.Name, Slot: slot, Kind: kind})
	}
	return cols, o.document()
}

func (o *origin) open() bool { return true }
func (o *origin) width() int { return o.next }
