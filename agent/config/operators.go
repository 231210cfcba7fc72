package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/plan"
)

// operatorSettings are the parts of a step in plan.Operators.
var operatorSettings = []*setting{
	set("changed", at(func(s *plan.StepSpec) **plan.ChangedSpec { return &s.Changed }).is(optional[plan.ChangedSpec]{changedObject}),
		"Passes the first row of a key, and then those whose value differs from that of the last one passed."),
	set("lag", at(func(s *plan.StepSpec) **plan.LagSpec { return &s.Lag }).is(optional[plan.LagSpec]{lagObject}),
		"Adds a column: the value that the row n rows before had."),
	set("delta", at(func(s *plan.StepSpec) **plan.DeltaSpec { return &s.Delta }).is(optional[plan.DeltaSpec]{deltaObject}),
		"Adds a column: the value less that of the row before."),
	set("counter", at(func(s *plan.StepSpec) **plan.CounterSpec { return &s.Counter }).is(optional[plan.CounterSpec]{counterObject}),
		"Adds columns: by how much a counter rose since the row before, and how fast, over resets and wraps. Rows older than the one before go to STEP.late."),
	set("zscore", at(func(s *plan.StepSpec) **plan.ZScoreSpec { return &s.ZScore }).is(optional[plan.ZScoreSpec]{zscoreObject}),
		"Passes outliers: rows whose value lies more than limit standard deviations from the mean of the n before, with the columns z, mean, stddev."),
	set("throttle", at(func(s *plan.StepSpec) **plan.ThrottleSpec { return &s.Throttle }).is(throttleKind{}),
		"Passes at most one row per key in so much time, the first: event time where there is, else the journal's."),
	set("sample", at(func(s *plan.StepSpec) **plan.SampleSpec { return &s.Sample }).is(optional[plan.SampleSpec]{sampleObject}),
		"Passes each n-th row of a key."),
	set("absence", at(func(s *plan.StepSpec) **plan.AbsenceSpec { return &s.Absence }).is(optional[plan.AbsenceSpec]{absenceObject}),
		"Tells when a key that was seen falls silent (missing) and when it is back. Columns: the by fields, transition, last_seen, time."),
	set("flatten", at(func(s *plan.StepSpec) **plan.FlattenSpec { return &s.Flatten }).is(optional[plan.FlattenSpec]{flattenObject}),
		"Makes a row of each element of an array."),
	set("cast", at(func(s *plan.StepSpec) **plan.CastSpec { return &s.Cast }).is(castKind{}),
		"Gives fields another type: {temp: float, id: uint}. What cannot be cast becomes a dead letter."),
	set("split", at(func(s *plan.StepSpec) **plan.SplitSpec { return &s.Split }).is(splitKind{}),
		"Sends each row to one output: {NAME: condition, …} to STEP.NAME of the first that is true, else to STEP.rest; {share: 10%, on: [field]} to STEP.in or STEP.rest by the hash of the key."),
}

var changedObject = &object[plan.ChangedSpec]{place: func(c *plan.ChangedSpec, at plan.Pos) { c.Pos = at }, section: section{what: "changed", list: []*setting{
	set("value", at(func(c *plan.ChangedSpec) *plan.Text { return &c.Value }).is(expressionKind), "What is watched. Null is no value: its row is dropped.", required()),
}}}

var lagObject = &object[plan.LagSpec]{place: func(l *plan.LagSpec, at plan.Pos) { l.Pos = at }, section: section{what: "lag", list: []*setting{
	set("value", at(func(l *plan.LagSpec) *plan.Text { return &l.Value }).is(expressionKind), "The value of a row.", required()),
	set("n", at(func(l *plan.LagSpec) *int { return &l.N }).is(intKind{1, ops.LagMax}), "How many rows back.", byDefault("1")),
	set("as", at(func(l *plan.LagSpec) *plan.Text { return &l.As }).is(fieldNameKind), "The column.", byDefault("prev")),
}}}

var deltaObject = &object[plan.DeltaSpec]{place: func(d *plan.DeltaSpec, at plan.Pos) { d.Pos = at }, section: section{what: "delta", list: []*setting{
	set("value", at(func(d *plan.DeltaSpec) *plan.Text { return &d.Value }).is(expressionKind), "The number of a row.", required()),
	set("as", at(func(d *plan.DeltaSpec) *plan.Text { return &d.As }).is(fieldNameKind), "The column.", byDefault("delta")),
}}}

var counterObject = &object[plan.CounterSpec]{place: func(c *plan.CounterSpec, at plan.Pos) { c.Pos = at }, section: section{what: "counter", list: []*setting{
	set("value", at(func(c *plan.CounterSpec) *plan.Text { return &c.Value }).is(expressionKind), "The counter, a number from 0 on.", required()),
	set("as", at(func(c *plan.CounterSpec) *plan.Text { return &c.As }).is(fieldNameKind), "The column of the increase.", byDefault("increase")),
	set("rate", at(func(c *plan.CounterSpec) *int64 { return &c.RateNs }).is(nanoseconds{durationKind{least: time.Millisecond, most: durationMax}}),
		"Adds the increase per so much time. Left out: no rate."),
	set("rate_as", at(func(c *plan.CounterSpec) *plan.Text { return &c.RateAs }).is(fieldNameKind), "The column of the rate.", byDefault("rate")),
	set("wrap", at(func(c *plan.CounterSpec) *uint64 { return &c.WrapLast }).is(wrapKind{}),
		"The number of values of a counter of fixed width, behind the last of which it begins again at 0: 65536 for 16 bits.", byDefault("never")),
	set("max_step", at(func(c *plan.CounterSpec) *uint64 { return &c.StepMax }).is(stepKind{}),
		"The largest increase over the wrap that is one; more is a reset. Left out: half of wrap."),
	set("reset_to", at(func(c *plan.CounterSpec) *bool { return &c.ResetUnknown }).is(resetKind{}),
		"What a reset means. zero: the counter began at 0, its value is the increase. unknown: the increase is null.", byDefault("zero")),
}}, check: func(r *reader, n *node, c *plan.CounterSpec) {
	for _, e := range n.entries {
		if e.key.text == "max_step" {
			c.StepPos = e.value.pos
		}
	}
	if c.RateNs == 0 {
		r.idle(n, "give rate, the time that it is per, such as 1s", "there is no rate", "rate_as")
	}
}}

var zscoreObject = &object[plan.ZScoreSpec]{place: func(z *plan.ZScoreSpec, at plan.Pos) { z.Pos = at }, section: section{what: "zscore", list: []*setting{
	set("value", at(func(z *plan.ZScoreSpec) *plan.Text { return &z.Value }).is(expressionKind), "The number that is judged.", required()),
	set("n", at(func(z *plan.ZScoreSpec) *int { return &z.N }).is(intKind{2, ops.ZScoreMax}), "How many rows before it are the measure; until there are so many, nothing passes.", required()),
	set("limit", at(func(z *plan.ZScoreSpec) *float64 { return &z.Limit }).is(floatKind{0, math.MaxFloat64}), "A row passes when it lies more standard deviations from their mean.", required()),
}}}

var sampleObject = &object[plan.SampleSpec]{place: func(s *plan.SampleSpec, at plan.Pos) { s.Pos = at }, section: section{what: "sample", list: []*setting{
	set("every", at(func(s *plan.SampleSpec) *int { return &s.Every }).is(intKind{1, math.MaxInt32}), "10 passes the 10th, 20th, 30th row of a key.", required()),
}}}

var absenceObject = &object[plan.AbsenceSpec]{place: func(a *plan.AbsenceSpec, at plan.Pos) { a.Pos = at }, section: section{what: "absence", list: []*setting{
	set("after", at(func(a *plan.AbsenceSpec) *int64 { return &a.AfterNs }).is(nanoseconds{durationKind{least: time.Millisecond, most: durationMax}}), "How long a key may be silent.", required()),
	set("time", at(func(a *plan.AbsenceSpec) *bool { return &a.EventTime }).is(eventKind{}),
		"processing: by the journal's clock, from the arrival of a key's last row. event: by the watermark, from the newest event time of a key.", byDefault("processing")),
}}}

var flattenObject = &object[plan.FlattenSpec]{place: func(f *plan.FlattenSpec, at plan.Pos) { f.Pos = at }, section: section{what: "flatten", list: []*setting{
	set("field", at(func(f *plan.FlattenSpec) *plan.Text { return &f.Field }).is(pathOfField), "The array.", required()),
	set("as", at(func(f *plan.FlattenSpec) *plan.Text { return &f.As }).is(fieldNameKind), "The column of the element; what is in it is AS.name or AS[0].", byDefault("element")),
	set("index", at(func(f *plan.FlattenSpec) *plan.Text { return &f.Index }).is(fieldNameKind), "The column of the element's place, from 0. Left out: none."),
	set("fields", at(func(f *plan.FlattenSpec) *[]plan.ElementSpec { return &f.Fields }).is(elementFieldsKind{}),
		"Fields of an element and their types (bool, int, float, string, scalar, json, any): an element that is no object with these is a dead letter. Left out: an element may be anything."),
	set("time", at(func(f *plan.FlattenSpec) *plan.Text { return &f.Time }).is(pathOfField), "Field of the element that is the event time of its row. Left out: the row keeps that of the message."),
	set("unit", at(func(f *plan.FlattenSpec) *plan.Text { return &f.Unit }).is(choiceText{choiceKind{words: zonelessUnits}}), "Unit of time, as in a source.", byDefault("ms")),
	set("earliest", at(func(f *plan.FlattenSpec) *int64 { return &f.MinMs }).is(dateKind{}), "Oldest sane event time of an element.", byDefault("2000-01-01")),
	set("latest", at(func(f *plan.FlattenSpec) *int64 { return &f.MaxMs }).is(dateKind{}), "Newest sane event time of an element.", byDefault("2100-01-01")),
	set("limit", at(func(f *plan.FlattenSpec) *int { return &f.ElementsMax }).is(intKind{1, 1 << 20}), "Most elements of an array; a message with more is a dead letter.", byDefault("65536")),
}}, check: func(r *reader, n *node, f *plan.FlattenSpec) {
	if f.MinMs >= f.MaxMs {
		r.problems.Add(n.pos, "", "earliest lies before latest", "the sane range of event time is empty")
	}
	if f.Time.Value == "" {
		r.idle(n, "give time, a field of the element", "rows keep the time of the message", "unit", "earliest", "latest")
	}
}}

// eventKind is processing or event.
type eventKind struct{}

var eventWords = choiceKind{words: []string{"processing", "event"}}

func (eventKind) label() string          { return eventWords.label() }
func (eventKind) schema() map[string]any { return eventWords.schema() }
func (eventKind) reads(*bool)            {}
func (eventKind) read(r *reader, n *node, place any) {
	into := place.(*bool)
	var word string
	eventWords.read(r, n, &word)
	*into = word == "event"
}

// resetKind is zero or unknown.
type resetKind struct{}

var resetWords = choiceKind{words: []string{"zero", "unknown"}}

func (resetKind) label() string          { return resetWords.label() }
func (resetKind) schema() map[string]any { return resetWords.schema() }
func (resetKind) reads(*bool)            {}
func (resetKind) read(r *reader, n *node, place any) {
	into := place.(*bool)
	var word string
	resetWords.read(r, n, &word)
	*into = word == "unknown"
}

// wrapKind is the number of values of a counter, kept as the largest one; never is 0.
type wrapKind struct{}

func (wrapKind) label() string {
	return "a whole number from 2 to 18446744073709551616 (64 bits), or never"
}
func (wrapKind) schema() map[string]any {
	return map[string]any{"anyOf": []any{map[string]any{"type": "integer", "minimum": 2}, map[string]any{"const": "never"}}}
}
func (wrapKind) reads(*uint64) {}
func (k wrapKind) read(r *reader, n *node, place any) {
	into := place.(*uint64)
	if n.shape == shapeScalar {
		if n.text == "never" {
			*into = 0
			return
		}
		if n.text == "18446744073709551616" {
			*into = math.MaxUint64
			return
		}
		if values, err := strconv.ParseUint(n.text, 10, 64); err == nil && values >= 2 {
			*into = values - 1
			return
		}
	}
	r.wrong(n, k.label())
}

// stepKind is a whole number from 1 on.
type stepKind struct{}

func (stepKind) label() string          { return "a whole number of at least 1" }
func (stepKind) schema() map[string]any { return map[string]any{"type": "integer", "minimum": 1} }
func (stepKind) reads(*uint64)          {}
func (k stepKind) read(r *reader, n *node, place any) {
	into := place.(*uint64)
	step, err := strconv.ParseUint(n.text, 10, 64)
	switch {
	case n.shape == shapeScalar && errors.Is(err, strconv.ErrRange):
		r.wrong(n, "a whole number from 1 to 18446744073709551615")
	case n.shape != shapeScalar || err != nil || step < 1:
		r.wrong(n, k.label())
	default:
		*into = step
	}
}

// throttleKind is the interval.
type throttleKind struct{}

var throttleInterval = nanoseconds{durationKind{least: time.Millisecond, most: durationMax}}

func (throttleKind) label() string             { return throttleInterval.label() }
func (throttleKind) schema() map[string]any    { return throttleInterval.schema() }
func (throttleKind) reads(**plan.ThrottleSpec) {}
func (throttleKind) read(r *reader, n *node, place any) {
	into := place.(**plan.ThrottleSpec)
	*into = &plan.ThrottleSpec{Pos: n.pos}
	throttleInterval.read(r, n, &(*into).IntervalNs)
}

// elementTypes are what a field of an element can be; scalar is anything but an object or an array.
var elementTypes = choiceKind{words: []string{"bool", "int", "float", "string", "scalar", "json", "any"}}

// elementFieldsKind is a mapping from fields of an element to types.
type elementFieldsKind struct{}

func (elementFieldsKind) label() string {
	return "a mapping from field names to types such as {id: string, v: scalar}"
}
func (elementFieldsKind) schema() map[string]any {
	return map[string]any{"type": "object", "minProperties": 1, "additionalProperties": elementTypes.schema()}
}
func (elementFieldsKind) reads(*[]plan.ElementSpec) {}
func (k elementFieldsKind) read(r *reader, n *node, place any) {
	into := place.(*[]plan.ElementSpec)
	list := pairs(r, n, k.label(), "a field")
	if n.shape == shapeMapping && len(list) == 0 {
		r.wrong(n, k.label())
	}
	for _, e := range list {
		if p, err := pipeline.ParsePath(e.key.text); err != nil || strings.HasPrefix(p[0].Name, "$") {
			r.problems.Add(e.key.pos, "", plan.FieldNameAllowed+", or a path such as motor.rpm", "the field name %s cannot be used", quote(e.key.text))
			continue
		}
		var word string
		elementTypes.read(r, e.value, &word)
		*into = append(*into, plan.ElementSpec{Name: e.key.toText(), Kind: fieldTypes[word], Scalar: word == "scalar"})
	}
}

// castKind is a mapping from fields to types.
type castKind struct{}

func (castKind) label() string {
	return "a mapping from fields to types such as {temp: float, id: uint}"
}
func (castKind) schema() map[string]any {
	return map[string]any{"type": "object", "minProperties": 1, "additionalProperties": choiceKind{words: plan.CastTypes}.schema()}
}
func (castKind) reads(**plan.CastSpec) {}
func (k castKind) read(r *reader, n *node, place any) {
	into := place.(**plan.CastSpec)
	*into = &plan.CastSpec{Pos: n.pos}
	list := pairs(r, n, k.label(), "a field")
	if n.shape == shapeMapping && len(list) == 0 {
		r.wrong(n, k.label())
	}
	for _, e := range list {
		if _, err := pipeline.ParsePath(e.key.text); err != nil || strings.HasPrefix(e.key.text, "$") {
			r.problems.Add(e.key.pos, "", plan.FieldNameAllowed+", or a path such as motor.rpm", "the field %s cannot be cast", quote(e.key.text))
			continue
		}
		f := plan.CastField{Name: e.key.toText()}
		choiceKind{words: plan.CastTypes}.read(r, e.value, &f.Type)
		(*into).Fields = append((*into).Fields, f)
	}
}

// splitKind is a mapping from outputs to conditions, or a share and the key that it goes by.
type splitKind struct{}

var (
	splitPorts = columnsKind{what: "output", texts: "conditions", free: true}
	shareOf    = &object[plan.SplitSpec]{section: section{what: "a share", list: []*setting{
		set("share", at(func(s *plan.SplitSpec) *int { return &s.Parts }).is(percentKind{}), "The share of the keys whose rows go to STEP.in.", required()),
		set("on", at(func(s *plan.SplitSpec) *[]plan.Text { return &s.On }).is(textsKind{pathOfField}), "Fields that make the key.", required()),
	}}}
)

func (splitKind) label() string {
	return "a mapping from outputs to conditions, or {share: 10%, on: [field]}"
}
func (splitKind) schema() map[string]any {
	return map[string]any{"anyOf": []any{splitPorts.schema(), shareOf.section.schema()}}
}
func (splitKind) reads(**plan.SplitSpec) {}
func (k splitKind) read(r *reader, n *node, place any) {
	into := place.(**plan.SplitSpec)
	*into = &plan.SplitSpec{Pos: n.pos}
	for _, e := range n.entries {
		if n.shape == shapeMapping && e.key.text == "share" {
			(*into).Share = true
			shareOf.fill(r, n, *into)
			return
		}
	}
	splitPorts.read(r, n, &(*into).Ports)
	for _, p := range (*into).Ports {
		switch reason := plan.CheckName(p.Name.Value, false); {
		case reason != "":
			r.problems.Add(p.Name.Pos, "", plan.NameAllowed, "output %s: %s", quote(p.Name.Value), reason)
		case p.Name.Value == plan.PortRest:
			r.problems.Add(p.Name.Pos, "", "rows for which no condition is true go there", "the output rest has no condition")
		}
	}
}

// percentKind is a part of the whole, in 1/100 of a percent.
type percentKind struct{}

func (percentKind) label() string { return "a share from 0.01% to 99.99%, such as 10%" }
func (percentKind) schema() map[string]any {
	return map[string]any{"type": "string", "pattern": `^[0-9]{1,2}(\.[0-9]{1,2})?%$`}
}
func (percentKind) reads(*int) {}
func (k percentKind) read(r *reader, n *node, place any) {
	into := place.(*int)
	text, percent := strings.CutSuffix(n.text, "%")
	whole, fraction, _ := strings.Cut(text, ".")
	parts, err := strconv.Atoi(whole + (fraction + "00")[:2])
	if n.shape != shapeScalar || !percent || err != nil || len(fraction) > 2 || strings.ContainsAny(text, "+-") || parts < 1 || parts >= ops.ShareParts {
		r.wrong(n, k.label())
		return
	}
	*into = parts
}
