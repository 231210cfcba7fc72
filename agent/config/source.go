package config

import (
	"errors"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/topic"
)

var sourceObject = &object[Source]{section: section{what: "a source", list: []*setting{
	set("mqtt", at(func(s *Source) *Source { return s }).is(mqttObject), "Where the messages come from.", required()),
	set("decode", at(func(s *Source) *[]plan.DecodeSpec { return &s.Decode }).is(decodeKind{}),
		"How payloads are read: json, cbor, csv, influx, sparkplug, text, number, bytes; or a list of {topic, as}, of which the first that matches counts (no topic: all others). What nothing matches becomes a dead letter.", byDefault("json")),
	set("fields", at(func(s *Source) *[]plan.FieldSpec { return &s.Fields }).is(fieldsKind{}),
		"Fields of the payload and their types (bool, int, float, string, json, any). Given: other names are refused in expressions. Left out: every name is accepted."),
	set("time", at(func(s *Source) **plan.TimeSpec { return &s.Time }).is(optional[plan.TimeSpec]{timeObject}), "Event time. Windows need it."),
	set("idle", at(func(s *Source) **plan.IdleSpec { return &s.Idle }).is(optional[plan.IdleSpec]{idleObject}),
		"What happens to time when nothing arrives. Left out: it stands still."),
}}, check: func(r *reader, n *node, s *Source) {
	checkDecoders(r, n, s)
	checkSourceTime(r, n, s)
}}

var mqttObject = &object[Source]{section: section{what: "mqtt", list: []*setting{
	set("broker", at(func(s *Source) *plan.Text { return &s.Broker }).is(wordKind), "Name of the broker (section brokers).", required()),
	set("topic", at(func(s *Source) *plan.Text { return &s.Topic }).is(textKind{what: "a topic filter such as plant/{line}/temp"}),
		"MQTT topic filter. {name} subscribes to + and puts that level into the field name.", required()),
	set("qos", at(func(s *Source) *int { return &s.QoS }).is(intKind{0, 2}), "Quality of service: 1 and 2 lose nothing, 0 is at most once.", byDefault("1")),
	set("retained", at(func(s *Source) *string { return &s.Retained }).is(choiceKind{words: []string{"ignore", "fresh", "include"}}),
		"Retained messages: ignore them, take them when the session is fresh, or take all (they come again at each subscription).", byDefault("ignore")),
	set("max_message", at(func(s *Source) *int64 { return &s.MaxMessageBytes }).is(sizeKind{least: 1 << 10, most: 32 << 20}),
		"Largest payload that is taken whole. Of larger ones the head is kept as a dead letter.", byDefault("1MiB")),
	set("rate", at(func(s *Source) *float64 { return &s.RateMax }).is(floatKind{0, 1e9}),
		"Most messages per second; above it reading pauses and the broker queues. 0: no limit.", byDefault("0")),
	set("bytes_per_day", at(func(s *Source) *int64 { return &s.BytesPerDayMax }).is(sizeKind{none: "none"}),
		"Most payload bytes per day; above it reading pauses.", byDefault("none")),
}}, check: func(r *reader, n *node, s *Source) {
	if s.Topic.Value == "" {
		return
	}
	filter, _, err := plan.ParseTopic(s.Topic.Value)
	if err != nil {
		var at *plan.TopicError
		errors.As(err, &at)
		r.problems.Add(s.Topic.At(at.Offset), "", "+ and {name} take a whole level, # the last one", "topic %s: %s", quote(s.Topic.Value), at.Msg)
	}
	s.Filter = filter
}}

var decoders = []string{plan.DecodeJSON, plan.DecodeCBOR, plan.DecodeText, plan.DecodeNumber, plan.DecodeBytes, plan.DecodeCSV, plan.DecodeInflux, plan.DecodeSparkplug}

// decodeKind is one decoder for all topics, or a list.
type decodeKind struct{}

var decodeObject = &object[plan.DecodeSpec]{place: func(d *plan.DecodeSpec, at plan.Pos) { d.Pos = at }, section: section{what: "a decoder", list: []*setting{
	set("topic", at(func(d *plan.DecodeSpec) *plan.Text { return &d.Topic }).is(textKind{what: "a topic filter", check: func(s string) string {
		if err := topic.Validate(s); err != nil {
			return err.Error()
		}
		return ""
	}, allowed: "an MQTT topic filter"}), "Topics that it reads. Left out: all that no earlier one matched."),
	set("as", at(func(d *plan.DecodeSpec) *plan.Text { return &d.As }).is(choiceText{choiceKind{words: decoders}}),
		"json, cbor, csv, influx (line protocol), sparkplug (Sparkplug B); text, number, bytes put the payload into the field value.", required()),
	set("columns", at(func(d *plan.DecodeSpec) *[]plan.Text { return &d.Columns }).is(textsKind{textKind{what: "the name of a column", check: plan.CheckFieldName, allowed: plan.FieldNameAllowed}}),
		"csv: names of the values of a line, in order."),
	set("separator", at(func(d *plan.DecodeSpec) *string { return &d.Separator }).is(choiceKind{words: []string{",", ";", "|", "tab"}}),
		"csv: what stands between the values.", byDefault(",")),
	set("rows", at(func(d *plan.DecodeSpec) *string { return &d.Rows }).is(choiceKind{words: []string{plan.RowsMessage, plan.RowsMetric}}),
		"sparkplug: a row per message, whose fields are its metrics, or a row per metric with name, value, datatype, timestamp, historical, alias.", byDefault(plan.RowsMessage)),
	set("rebirth", at(func(d *plan.DecodeSpec) *bool { return &d.Rebirth }).is(boolKind{}),
		"sparkplug: ask a node for its birth certificates (a node command is published) when a message is missing or an alias is unknown.", byDefault("true")),
	set("rebirth_every", at(func(d *plan.DecodeSpec) *int64 { return &d.RebirthEveryMs }).is(wholeMs{durationKind{least: time.Second}}),
		"sparkplug: least time between two such requests to one node.", byDefault("1m")),
}}, check: checkDecode}

func checkDecode(r *reader, n *node, d *plan.DecodeSpec) {
	switch {
	case d.As.Value == plan.DecodeCSV && len(d.Columns) == 0:
		r.problems.Add(n.pos, "", "decode: [{as: csv, columns: [ts, device, temp]}]", "csv needs the names of its columns")
	case d.As.Value != plan.DecodeCSV && len(d.Columns) > 0:
		r.problems.Add(d.Columns[0].Pos, "", "columns are for csv", "a decoder as %s has columns", d.As)
	}
	checkDecoderSettings(r, n, d)
	for i, c := range d.Columns {
		for _, before := range d.Columns[:i] {
			if before.Value == c.Value {
				r.problems.Add(c.Pos, "", "each column has a name of its own", "the column %s comes twice", quote(c.Value))
			}
		}
	}
}

// decoderList is the long form.
var decoderList = listOf[plan.DecodeSpec]{of: decodeObject, least: 1}.means()

func (decodeKind) label() string {
	return "one of " + strings.Join(decoders, ", ") + ", or a list of {topic, as}"
}
func (decodeKind) settings() ([]*setting, string) { return decodeObject.section.list, "list" }
func (decodeKind) schema() map[string]any {
	return map[string]any{"anyOf": []any{choiceKind{words: decoders}.schema(), decoderList.kind.schema()}}
}
func (decodeKind) reads(*[]plan.DecodeSpec) {}
func (decodeKind) read(r *reader, n *node, place any) {
	into := place.(*[]plan.DecodeSpec)
	if n.shape == shapeList {
		decoderList.read(r, n, into)
		return
	}
	d := plan.DecodeSpec{Rebirth: true, RebirthEveryMs: 60_000} // as the defaults of the long form
	choiceText{choiceKind{words: decoders}}.read(r, n, &d.As)
	checkDecode(r, n, &d)
	*into = []plan.DecodeSpec{d}
}

var fieldTypes = map[string]pipeline.Kind{
	"bool": pipeline.Bool, "int": pipeline.Int, "float": pipeline.Float, "string": pipeline.String, "json": pipeline.JSON, "any": pipeline.Null,
}

var fieldTypeNames = []string{"bool", "int", "float", "string", "json", "any"}

// fieldsKind is a mapping from field names to types.
type fieldsKind struct{}

func (fieldsKind) label() string { return "a mapping from field names to types such as {temp: float}" }
func (fieldsKind) schema() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": choiceKind{words: fieldTypeNames}.schema()}
}
func (fieldsKind) reads(*[]plan.FieldSpec) {}
func (k fieldsKind) read(r *reader, n *node, place any) {
	into := place.(*[]plan.FieldSpec)
	for _, e := range pairs(r, n, k.label(), "a field") {
		if _, err := pipeline.ParsePath(e.key.text); err != nil || strings.HasPrefix(e.key.text, "$") {
			r.problems.Add(e.key.pos, "", plan.FieldNameAllowed+", or a path such as motor.rpm", "the field name %s cannot be used", quote(e.key.text))
			continue
		}
		var word string
		choiceKind{words: fieldTypeNames}.read(r, e.value, &word)
		*into = append(*into, plan.FieldSpec{Name: e.key.toText(), Kind: fieldTypes[word]})
	}
}

// pairs gives the entries of a mapping, each key once.
func pairs(r *reader, n *node, label, what string) []entry {
	if n.shape != shapeMapping {
		r.wrong(n, label)
		return nil
	}
	var out []entry
	lines := map[string]int{}
	for _, e := range n.entries {
		if first := lines[e.key.text]; first > 0 {
			r.problems.Add(e.key.pos, "", "each name stands once", "%s %s is given twice, first at line %d", what, quote(e.key.text), first)
			continue
		}
		lines[e.key.text] = e.key.pos.Line
		if e.value.shape != shapeRefused {
			out = append(out, e)
		}
	}
	return out
}

var timeUnits = codec.Units()

// zonelessUnits need no more than the value: all but local.
var zonelessUnits = timeUnits[:len(timeUnits)-1]

var timeObject = &object[plan.TimeSpec]{place: func(t *plan.TimeSpec, at plan.Pos) { t.Pos = at }, section: section{what: "time", list: []*setting{
	set("field", at(func(t *plan.TimeSpec) *plan.Text { return &t.Field }).is(textKind{what: "a field such as ts"}),
		"Field that holds the event time; $received is the arrival at this device.", required()),
	set("unit", at(func(t *plan.TimeSpec) *plan.Text { return &t.Unit }).is(choiceText{choiceKind{words: timeUnits}}),
		"Unit of the field since 1970, rfc3339 for such text, or local for the text of a clock without a zone. A stamp outside of the range becomes a dead letter.", byDefault("ms")),
	set("zone", at(func(t *plan.TimeSpec) *plan.Text { return &t.Zone }).is(textKind{what: "a zone such as Europe/Berlin"}),
		"Zone of local times, and of rfc3339 texts that have none: a name of the time zone database, whose rules weir brings along."),
	set("layout", at(func(t *plan.TimeSpec) *plan.Text { return &t.Layout }).is(textKind{what: "a layout such as 2006-01-02 15:04:05"}),
		"How local times are written: the time 2006-01-02 15:04:05 as the texts would write it. Left out: 2006-01-02T15:04:05."),
	set("fold", at(func(t *plan.TimeSpec) *string { return &t.Fold }).is(choiceKind{words: codec.Folds()}),
		"A local time that the clock shows twice: the first or the second instant, the one nearest to the arrival (the first while the clock is not trusted), or a dead letter.", byDefault("first")),
	set("gap", at(func(t *plan.TimeSpec) *string { return &t.Gap }).is(choiceKind{words: codec.Gaps()}),
		"A local time that the clock is put forward over: a dead letter, or shift: read with the offset before the change.", byDefault("reject")),
	set("out_of_orderness", at(func(t *plan.TimeSpec) *int64 { return &t.OutOfOrdernessMs }).is(wholeMs{durationKind{}}),
		"How much older than the newest record a record may be and still be in time.", byDefault("0s")),
	set("watermark_by", at(func(t *plan.TimeSpec) *[]plan.Text { return &t.WatermarkBy }).is(textsKind{pathOfField}),
		"Fields whose values have a watermark each, for devices that upload late: windows wait for the slowest that is not idle (idle.after)."),
	set("watermark_keys", at(func(t *plan.TimeSpec) *int { return &t.WatermarkKeys }).is(intKind{1, 1_000_000}),
		"Most watermarks at once; records of new keys beyond it become dead letters.", byDefault("10000")),
	set("max_ahead", at(func(t *plan.TimeSpec) *int64 { return &t.MaxAheadMs }).is(wholeMs{durationKind{never: "never"}}),
		"A stamp further in the future than this becomes a dead letter and does not move the watermark. Off while this device's clock is not trusted. never: no guard.", byDefault("never")),
	set("earliest", at(func(t *plan.TimeSpec) *int64 { return &t.MinMs }).is(dateKind{}), "Oldest sane event time.", byDefault("2000-01-01")),
	set("latest", at(func(t *plan.TimeSpec) *int64 { return &t.MaxMs }).is(dateKind{}), "Newest sane event time.", byDefault("2100-01-01")),
}}, check: func(r *reader, n *node, t *plan.TimeSpec) {
	if t.MinMs >= t.MaxMs {
		r.problems.Add(n.pos, "", "earliest lies before latest", "the sane range of event time is empty")
	}
	checkTimeSettings(r, n, t)
}}

// dateKind is a date or an RFC 3339 instant, as Unix ms.
type dateKind struct{}

func (dateKind) label() string { return "a date such as 2000-01-01 or 2000-01-01T00:00:00Z" }
func (dateKind) schema() map[string]any {
	return map[string]any{"type": "string", "pattern": `^\d{4}-\d\d-\d\d`}
}
func (dateKind) reads(*int64) {}
func (k dateKind) read(r *reader, n *node, place any) {
	into := place.(*int64)
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, n.text); err == nil && n.shape == shapeScalar {
			*into = t.UnixMilli()
			return
		}
	}
	r.wrong(n, k.label())
}

var idleObject = &object[plan.IdleSpec]{section: section{what: "idle", list: []*setting{
	set("after", at(func(i *plan.IdleSpec) *int64 { return &i.AfterNs }).is(nanoseconds{durationKind{least: time.Millisecond}}), "Silence after which the source is idle.", required()),
	set("watermark", at(func(i *plan.IdleSpec) *bool { return &i.Advance }).is(advanceKind{}),
		"hold: others wait for it. advance: others go on without it, and its time goes on with the clock, so that the last windows close.", byDefault("hold")),
}}}

// advanceKind is hold or advance.
type advanceKind struct{}

func (advanceKind) label() string { return "hold or advance" }
func (advanceKind) schema() map[string]any {
	return choiceKind{words: []string{"hold", "advance"}}.schema()
}
func (advanceKind) reads(*bool) {}
func (advanceKind) read(r *reader, n *node, place any) {
	into := place.(*bool)
	var word string
	choiceKind{words: []string{"hold", "advance"}}.read(r, n, &word)
	*into = word == "advance"
}
