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

var sourceObject = &object[Source]{what: "a source", list: []*setting{
	set("mqtt", mqttObject, func(s *Source) *Source { return s }, "Where the messages come from.", required()),
	set("decode", decodeKind{}, func(s *Source) *[]plan.DecodeSpec { return &s.Decode },
		"How payloads are read: json, cbor, csv, influx, sparkplug, text, number, bytes; or a list of {topic, as}, of which the first that matches counts (no topic: all others). What nothing matches becomes a dead letter.", byDefault("json")),
	set("fields", fieldsKind{}, func(s *Source) *[]plan.FieldSpec { return &s.Fields },
		"Fields of the payload and their types (bool, int, float, string, json, any). Given: other names are refused in expressions. Left out: every name is accepted."),
	set("time", optional[plan.TimeSpec]{timeObject}, func(s *Source) **plan.TimeSpec { return &s.Time }, "Event time. Windows need it."),
	set("idle", optional[plan.IdleSpec]{idleObject}, func(s *Source) **plan.IdleSpec { return &s.Idle },
		"What happens to time when nothing arrives. Left out: it stands still."),
}, check: func(r *reader, n *node, s *Source) {
	checkDecoders(r, n, s)
	checkSourceTime(r, n, s)
}}

var mqttObject = &object[Source]{what: "mqtt", list: []*setting{
	set("broker", wordKind, func(s *Source) *plan.Text { return &s.Broker }, "Name of the broker (section brokers).", required()),
	set("topic", textKind{what: "a topic filter such as plant/{line}/temp"}, func(s *Source) *plan.Text { return &s.Topic },
		"MQTT topic filter. {name} subscribes to + and puts that level into the field name.", required()),
	set("qos", intKind{0, 2}, func(s *Source) *int { return &s.QoS }, "Quality of service: 1 and 2 lose nothing, 0 is at most once.", byDefault("1")),
	set("retained", choiceKind{words: []string{"ignore", "fresh", "include"}}, func(s *Source) *string { return &s.Retained },
		"Retained messages: ignore them, take them when the session is fresh, or take all (they come again at each subscription).", byDefault("ignore")),
	set("max_message", sizeKind{least: 1 << 10, most: 32 << 20}, func(s *Source) *int64 { return &s.MaxMessageBytes },
		"Largest payload that is taken whole. Of larger ones the head is kept as a dead letter.", byDefault("1MiB")),
	set("rate", floatKind{0, 1e9}, func(s *Source) *float64 { return &s.RateMax },
		"Most messages per second; above it reading pauses and the broker queues. 0: no limit.", byDefault("0")),
	set("bytes_per_day", sizeKind{none: "none"}, func(s *Source) *int64 { return &s.BytesPerDayMax },
		"Most payload bytes per day; above it reading pauses.", byDefault("none")),
}, check: func(r *reader, n *node, s *Source) {
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

var decodeObject = &object[plan.DecodeSpec]{what: "a decoder", list: []*setting{
	set("topic", textKind{what: "a topic filter", check: func(s string) string {
		if err := topic.Validate(s); err != nil {
			return err.Error()
		}
		return ""
	}, allowed: "an MQTT topic filter"}, func(d *plan.DecodeSpec) *plan.Text { return &d.Topic }, "Topics that it reads. Left out: all that no earlier one matched."),
	set("as", choiceText{choiceKind{words: decoders}}, func(d *plan.DecodeSpec) *plan.Text { return &d.As },
		"json, cbor, csv, influx (line protocol), sparkplug (Sparkplug B); text, number, bytes put the payload into the field value.", required()),
	set("columns", textsKind{textKind{what: "the name of a column", check: plan.CheckFieldName, allowed: plan.FieldNameAllowed}}, func(d *plan.DecodeSpec) *[]plan.Text { return &d.Columns },
		"csv: names of the values of a line, in order."),
	set("separator", choiceKind{words: []string{",", ";", "|", "tab"}}, func(d *plan.DecodeSpec) *string { return &d.Separator },
		"csv: what stands between the values.", byDefault(",")),
	set("rows", choiceKind{words: []string{plan.RowsMessage, plan.RowsMetric}}, func(d *plan.DecodeSpec) *string { return &d.Rows },
		"sparkplug: a row per message, whose fields are its metrics, or a row per metric with name, value, datatype, timestamp, historical, alias.", byDefault(plan.RowsMessage)),
	set("rebirth", boolKind{}, func(d *plan.DecodeSpec) *bool { return &d.Rebirth },
		"sparkplug: ask a node for its birth certificates (a node command is published) when a message is missing or an alias is unknown.", byDefault("true")),
	set("rebirth_every", wholeMs{durationKind{least: time.Second}}, func(d *plan.DecodeSpec) *int64 { return &d.RebirthEveryMs },
		"sparkplug: least time between two such requests to one node.", byDefault("1m")),
}, place: func(d *plan.DecodeSpec, at plan.Pos) { d.Pos = at }, check: checkDecode}

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

func (decodeKind) label() string {
	return "one of " + strings.Join(decoders, ", ") + ", or a list of {topic, as}"
}
func (decodeKind) absent(*[]plan.DecodeSpec)      {}
func (decodeKind) settings() ([]*setting, string) { return decodeObject.list, "list" }
func (decodeKind) schema() map[string]any {
	return map[string]any{"anyOf": []any{choiceKind{words: decoders}.schema(), listOf[plan.DecodeSpec]{of: decodeObject, least: 1}.schema()}}
}
func (decodeKind) read(r *reader, n *node, into *[]plan.DecodeSpec) {
	if n.shape == shapeList {
		listOf[plan.DecodeSpec]{of: decodeObject, least: 1}.read(r, n, into)
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

func (fieldsKind) label() string            { return "a mapping from field names to types such as {temp: float}" }
func (fieldsKind) absent(*[]plan.FieldSpec) {}
func (fieldsKind) schema() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": choiceKind{words: fieldTypeNames}.schema()}
}
func (k fieldsKind) read(r *reader, n *node, into *[]plan.FieldSpec) {
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

var timeObject = &object[plan.TimeSpec]{what: "time", place: func(t *plan.TimeSpec, at plan.Pos) { t.Pos = at }, list: []*setting{
	set("field", textKind{what: "a field such as ts"}, func(t *plan.TimeSpec) *plan.Text { return &t.Field },
		"Field that holds the event time; $received is the arrival at this device.", required()),
	set("unit", choiceText{choiceKind{words: timeUnits}}, func(t *plan.TimeSpec) *plan.Text { return &t.Unit },
		"Unit of the field since 1970, rfc3339 for such text, or local for the text of a clock without a zone. A stamp outside of the range becomes a dead letter.", byDefault("ms")),
	set("zone", textKind{what: "a zone such as Europe/Berlin"}, func(t *plan.TimeSpec) *plan.Text { return &t.Zone },
		"Zone of local times, and of rfc3339 texts that have none: a name of the time zone database, whose rules weir brings along."),
	set("layout", textKind{what: "a layout such as 2006-01-02 15:04:05"}, func(t *plan.TimeSpec) *plan.Text { return &t.Layout },
		"How local times are written: the time 2006-01-02 15:04:05 as the texts would write it. Left out: 2006-01-02T15:04:05."),
	set("fold", choiceKind{words: codec.Folds()}, func(t *plan.TimeSpec) *string { return &t.Fold },
		"A local time that the clock shows twice: the first or the second instant, the one nearest to the arrival (the first while the clock is not trusted), or a dead letter.", byDefault("first")),
	set("gap", choiceKind{words: codec.Gaps()}, func(t *plan.TimeSpec) *string { return &t.Gap },
		"A local time that the clock is put forward over: a dead letter, or shift: read with the offset before the change.", byDefault("reject")),
	set("out_of_orderness", wholeMs{durationKind{}}, func(t *plan.TimeSpec) *int64 { return &t.OutOfOrdernessMs },
		"How much older than the newest record a record may be and still be in time.", byDefault("0s")),
	set("watermark_by", textsKind{pathOfField}, func(t *plan.TimeSpec) *[]plan.Text { return &t.WatermarkBy },
		"Fields whose values have a watermark each, for devices that upload late: windows wait for the slowest that is not idle (idle.after)."),
	set("watermark_keys", intKind{1, 1_000_000}, func(t *plan.TimeSpec) *int { return &t.WatermarkKeys },
		"Most watermarks at once; records of new keys beyond it become dead letters.", byDefault("10000")),
	set("max_ahead", wholeMs{durationKind{never: "never"}}, func(t *plan.TimeSpec) *int64 { return &t.MaxAheadMs },
		"A stamp further in the future than this becomes a dead letter and does not move the watermark. Off while this device's clock is not trusted. never: no guard.", byDefault("never")),
	set("earliest", dateKind{}, func(t *plan.TimeSpec) *int64 { return &t.MinMs }, "Oldest sane event time.", byDefault("2000-01-01")),
	set("latest", dateKind{}, func(t *plan.TimeSpec) *int64 { return &t.MaxMs }, "Newest sane event time.", byDefault("2100-01-01")),
}, check: func(r *reader, n *node, t *plan.TimeSpec) {
	if t.MinMs >= t.MaxMs {
		r.problems.Add(n.pos, "", "earliest lies before latest", "the sane range of event time is empty")
	}
	checkTimeSettings(r, n, t)
}}

// dateKind is a date or an RFC 3339 instant, as Unix ms.
type dateKind struct{}

func (dateKind) label() string { return "a date such as 2000-01-01 or 2000-01-01T00:00:00Z" }
func (dateKind) absent(*int64) {}
func (dateKind) schema() map[string]any {
	return map[string]any{"type": "string", "pattern": `^\d{4}-\d\d-\d\d`}
}
func (k dateKind) read(r *reader, n *node, into *int64) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, n.text); err == nil && n.shape == shapeScalar {
			*into = t.UnixMilli()
			return
		}
	}
	r.wrong(n, k.label())
}

var idleObject = &object[plan.IdleSpec]{what: "idle", list: []*setting{
	set("after", nanoseconds{durationKind{least: time.Millisecond}}, func(i *plan.IdleSpec) *int64 { return &i.AfterNs }, "Silence after which the source is idle.", required()),
	set("watermark", advanceKind{}, func(i *plan.IdleSpec) *bool { return &i.Advance },
		"hold: others wait for it. advance: others go on without it, and its time goes on with the clock, so that the last windows close.", byDefault("hold")),
}}

// advanceKind is hold or advance.
type advanceKind struct{}

func (advanceKind) label() string { return "hold or advance" }
func (advanceKind) absent(*bool)  {}
func (advanceKind) schema() map[string]any {
	return choiceKind{words: []string{"hold", "advance"}}.schema()
}
func (advanceKind) read(r *reader, n *node, into *bool) {
	var word string
	choiceKind{words: []string{"hold", "advance"}}.read(r, n, &word)
	*into = word == "advance"
}
