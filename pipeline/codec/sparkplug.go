package codec

import (
	"slices"
	"strings"

	"github.com/weirstream/weir/pipeline"
)

// Names of the fields that a Sparkplug message has besides its metrics: members of `sparkplug`.
const (
	SparkplugField      = "sparkplug"
	sparkplugGroup      = "sparkplug.group"
	sparkplugEdge       = "sparkplug.edge"
	sparkplugDevice     = "sparkplug.device"
	sparkplugKind       = "sparkplug.type"
	sparkplugSeq        = "sparkplug.seq"
	sparkplugTimestamp  = "sparkplug.timestamp"
	sparkplugStale      = "sparkplug.stale"
	sparkplugHistorical = "sparkplug.historical"
)

// Names of the fields of a row per metric.
const (
	metricFieldName       = "name"
	metricFieldAlias      = "alias"
	metricFieldType       = "datatype"
	metricFieldTime       = "timestamp"
	metricFieldHistorical = "historical"
)

// SparkplugKinds are the fields of every row and their kinds, by name.
func SparkplugKinds() map[string]pipeline.Kind {
	return map[string]pipeline.Kind{
		sparkplugGroup: pipeline.String, sparkplugEdge: pipeline.String, sparkplugDevice: pipeline.String, sparkplugKind: pipeline.String,
		sparkplugSeq: pipeline.Int, sparkplugTimestamp: pipeline.Int, sparkplugStale: pipeline.Bool, sparkplugHistorical: pipeline.Bool,
	}
}

// Sparkplug reads the Sparkplug B messages of one source: a row per message whose fields are its metrics by name, or a row per metric.
// It follows birth and death certificates, aliases and sequence numbers of every edge node.
type Sparkplug struct {
	*flat
	perMetric bool
	limits    Limits
	nodes     map[string]*sparkplugNode
	metrics   int // in all birth certificates kept, and one per certificate
	changed   []*sparkplugNode

	topic   sparkplugTopic
	message sparkplugPayload
	named   []namedMetric
	last    map[string]int // of a name in the message: its last metric
	stale   bool
	wish    Wish
}

// namedMetric is a metric of the opened message with what its birth certificate knows of it.
type namedMetric struct {
	*sparkplugMetric
	known bool // it has a name
	typ   sparkplugType
}

// NewSparkplug makes the decoder of a source. perMetric: a row per metric, with the fields name, value, datatype, timestamp, historical and
// alias; else one per message. whole is the row as a JSON object.
func NewSparkplug(fields []Field, whole int, perMetric bool, l Limits) *Sparkplug {
	return &Sparkplug{
		flat: newFlat(fields, whole), perMetric: perMetric, limits: l.orDefault(), nodes: map[string]*sparkplugNode{}, last: map[string]int{},
	}
}

// sparkplugTopic is namespace/group/type/edge[/device].
type sparkplugTopic struct{ group, kind, edge, device string }

const sparkplugNamespace = "spBv1.0"

var sparkplugMessages = []string{"NBIRTH", "NDATA", "NDEATH", "NCMD", "DBIRTH", "DDATA", "DDEATH", "DCMD"}

func parseSparkplugTopic(topic string) (t sparkplugTopic, err error) {
	levels := strings.Split(topic, "/")
	refuse := func(reason string) (sparkplugTopic, error) {
		return t, &Error{Reason: "topic " + excerpt(topic) + ": " + reason, Offset: -1}
	}
	if levels[0] != sparkplugNamespace {
		return refuse("want " + sparkplugNamespace + "/GROUP/TYPE/EDGE[/DEVICE]")
	}
	if len(levels) > 1 && levels[1] == "STATE" {
		return refuse("the state of a host is text, give it a decoder of its own: {topic: spBv1.0/STATE/+, as: json}")
	}
	if len(levels) < 4 || len(levels) > 5 || !slices.Contains(sparkplugMessages, levels[2]) {
		return refuse("want " + sparkplugNamespace + "/GROUP/TYPE/EDGE[/DEVICE] with a type of " + strings.Join(sparkplugMessages, ", "))
	}
	t = sparkplugTopic{group: levels[1], kind: levels[2], edge: levels[3]}
	if len(levels) == 5 {
		t.device = levels[4]
	}
	if (t.kind[0] == 'D') != (len(levels) == 5) {
		return refuse("messages of a device have its name as the last level, those of a node have none")
	}
	return t, nil
}

// Open implements Sequential.
func (d *Sparkplug) Open(pos pipeline.Position, topic, payload []byte) (records int, err error) {
	d.wish = Wish{}
	t, err := parseSparkplugTopic(string(topic))
	if err != nil {
		return 0, err
	}
	if err := d.message.read(payload, d.limits.Elements); err != nil {
		return 0, err
	}
	d.topic = t
	if err := d.move(pos); err != nil {
		return 0, err
	}
	return d.records(), nil
}

// records numbers the rows of the opened message. A message without metrics is one row all the same: it may tell of a death.
func (d *Sparkplug) records() int {
	clear(d.last)
	for i := range d.named {
		if d.named[i].known {
			d.last[d.named[i].name] = i
		}
	}
	if d.perMetric {
		return max(len(d.named), 1)
	}
	return 1
}

// Wish implements Sequential.
func (d *Sparkplug) Wish() Wish { return d.wish }

// Decode reads a payload by itself, as if a node of which nothing is known had sent it: metrics have what names and types they bring.
func (d *Sparkplug) Decode(payload []byte, slots []pipeline.Value) error {
	if err := d.message.read(payload, d.limits.Elements); err != nil {
		return err
	}
	d.topic, d.stale = sparkplugTopic{}, false
	d.resolve(nil)
	d.records()
	return d.Record(0, slots)
}

// Record implements Sequential.
func (d *Sparkplug) Record(i int, slots []pipeline.Value) error {
	d.begin(slots)
	historical := false
	for n := range d.named {
		historical = historical || d.named[n].historical
	}
	if err := d.about(historical); err != nil {
		return err
	}
	var err error
	switch {
	case d.perMetric && len(d.named) > 0:
		err = d.metric(&d.named[i])
	case !d.perMetric:
		err = d.all()
	}
	if err != nil {
		return err
	}
	d.end()
	return nil
}

// about stores what the topic and the payload itself say, in one member of the document.
func (d *Sparkplug) about(historical bool) error {
	outer := d.text
	if d.whole >= 0 {
		d.text = append(d.text, `"`+SparkplugField+`":{`...)
	}
	inside := len(d.text)
	t := &d.topic
	device, seq, at := pipeline.Value{}, pipeline.Value{}, pipeline.Value{}
	if t.device != "" {
		device = pipeline.StringValue(t.device)
	}
	if d.message.hasSeq {
		seq = pipeline.IntValue(int64(d.message.seq))
	}
	if d.message.hasTimestamp {
		at = unsigned(d.message.timestamp)
	}
	for _, f := range []struct {
		name  string
		value pipeline.Value
	}{
		{sparkplugGroup, pipeline.StringValue(t.group)}, {sparkplugEdge, pipeline.StringValue(t.edge)}, {sparkplugDevice, device},
		{sparkplugKind, pipeline.StringValue(t.kind)}, {sparkplugSeq, seq}, {sparkplugTimestamp, at},
		{sparkplugStale, pipeline.BoolValue(d.stale)}, {sparkplugHistorical, pipeline.BoolValue(historical)},
	} {
		if err := d.store(f.name, f.value, plainly(f.value)); err != nil {
			return err
		}
		if d.whole < 0 {
			continue
		}
		if len(d.text) > inside {
			d.text = append(d.text, ',')
		}
		if err := d.write(f.name[len(SparkplugField)+1:], f.value); err != nil {
			return err
		}
	}
	if d.whole >= 0 {
		d.text = append(d.text, '}')
	} else {
		d.text = outer
	}
	return nil
}

// plainly converts a value to the declared kind.
func plainly(v pipeline.Value) func(pipeline.Kind) (pipeline.Value, string) {
	return func(k pipeline.Kind) (pipeline.Value, string) { return as(v, k) }
}

// all stores every metric under its name. Of several with one name (a report of history) the last one counts.
func (d *Sparkplug) all() error {
	for i := range d.named {
		m := &d.named[i]
		if !m.known || d.last[m.name] != i {
			continue
		}
		if m.name == SparkplugField || strings.HasPrefix(m.name, SparkplugField+".") {
			return &Error{Reason: "a metric has the name of what the message itself says; take a row per metric", Offset: -1, Field: m.name}
		}
		if d.whole < 0 && len(d.fields[m.name]) == 0 {
			continue // nobody asks: what it holds cannot refuse the message
		}
		if err := d.putMetric(m.name, m); err != nil {
			return err
		}
	}
	return nil
}

// metric stores one metric as a row of its own.
func (d *Sparkplug) metric(m *namedMetric) error {
	name, alias, typ, at := pipeline.Value{}, pipeline.Value{}, pipeline.Value{}, pipeline.Value{}
	if m.known {
		name = pipeline.StringValue(m.name)
	}
	if m.hasAlias {
		alias = unsigned(m.alias)
	}
	if m.typ != typeUnknown {
		typ = pipeline.StringValue(m.typ.String())
	}
	switch {
	case m.hasTimestamp:
		at = unsigned(m.timestamp)
	case d.message.hasTimestamp:
		at = unsigned(d.message.timestamp)
	}
	for _, f := range []struct {
		name  string
		value pipeline.Value
	}{{metricFieldName, name}, {metricFieldAlias, alias}, {metricFieldType, typ}, {metricFieldTime, at}, {metricFieldHistorical, pipeline.BoolValue(m.historical)}} {
		if err := d.put(f.name, f.value, plainly(f.value)); err != nil {
			return err
		}
	}
	return d.putMetric(ValueField, m)
}

func (d *Sparkplug) putMetric(name string, m *namedMetric) error {
	v, reason := m.value(m.typ)
	if reason != "" {
		return &Error{Reason: reason, Offset: -1, Field: name}
	}
	return d.put(name, v, plainly(v))
}
