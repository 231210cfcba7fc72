package config

import (
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/plan"
)

// joinSettings are the parts of a step in plan.Joins.
var joinSettings = []*setting{
	set("join", at(func(s *plan.StepSpec) **plan.JoinSpec { return &s.Join }).is(optional[plan.JoinSpec]{joinObject}),
		"Joins the rows of two inputs, from: [left, right]: within a time of each other, within one window, or each left row with the latest right one."),
	set("lookup", at(func(s *plan.StepSpec) **plan.LookupSpec { return &s.Lookup }).is(optional[plan.LookupSpec]{lookupObject}),
		"Adds columns of a CSV or JSON file to each row, by key. The file's content is part of the plan."),
}

var joinObject = &object[plan.JoinSpec]{place: func(j *plan.JoinSpec, at plan.Pos) { j.Pos = at }, section: section{what: "join", list: []*setting{
	set("on", at(func(j *plan.JoinSpec) *[]plan.OnSpec { return &j.On }).is(onKind{what: "on", left: "a field of the left input", right: "the field of the right input"}),
		"Fields that must be equal: [device] where both inputs have the name, {left: right} where the names differ.", required()),
	set("within", at(func(j *plan.JoinSpec) **plan.WithinSpec { return &j.Within }).is(withinKind{}),
		"Interval join: how far the event times of partners may lie apart. 5s is either way; {before: 5s, after: 1s} is how far the right row may lie before the left one, and after it."),
	set("window", at(func(j *plan.JoinSpec) **plan.JoinWindowSpec { return &j.Window }).is(optional[plan.JoinWindowSpec]{joinWindowObject}),
		"Window join: partners lie in one window of event time."),
	set("latest", at(func(j *plan.JoinSpec) *bool { return &j.Latest }).is(boolKind{}),
		"Latest-value join: each left row with the right row of its key that arrived last, as of a topic of retained messages.", byDefault("false")),
	set("type", at(func(j *plan.JoinSpec) *plan.Text { return &j.Type }).is(choiceText{choiceKind{words: []string{"inner", "left", "full"}, means: map[string]string{"left_outer": "left", "full_outer": "full"}}}),
		"Which rows come out without a partner, with null for the other side: none, those of the left input, those of both.", byDefault("inner")),
	set("select", at(func(j *plan.JoinSpec) **plan.SelectSpec { return &j.Select }).is(selectKind{}),
		"Columns of the joined rows, with left. and right. in front of fields: {temp: left.temp, humidity: right.humidity}. Left out: all of the left input, then all of the right."),
}}, check: func(r *reader, n *node, j *plan.JoinSpec) {
	var given []string
	for _, e := range n.entries {
		if slices.Contains([]string{"within", "window"}, e.key.text) || e.key.text == "latest" && j.Latest {
			given = append(given, e.key.text)
		}
	}
	const allowed = "a join has one of within: 5s, window: {tumbling: 1m} and latest: true"
	switch {
	case len(given) == 0:
		r.problems.Add(n.pos, "", allowed, "join does not say which rows are partners")
	case len(given) > 1:
		r.problems.Add(n.pos, "", allowed, "join has %s at once", strings.Join(given, " and "))
	}
}}

// onKind is the key of a join or lookup.
type onKind struct{ what, left, right string }

func (k onKind) label() string {
	return "a field, a list of fields, or a mapping from " + k.left + " to " + k.right
}
func (k onKind) schema() map[string]any {
	return map[string]any{"anyOf": []any{
		map[string]any{"type": "string"}, map[string]any{"type": "array", "minItems": 1, "items": map[string]any{"type": "string"}},
		map[string]any{"type": "object", "minProperties": 1, "additionalProperties": map[string]any{"type": "string"}},
	}}
}
func (onKind) reads(*[]plan.OnSpec) {}
func (k onKind) read(r *reader, n *node, place any) {
	into := place.(*[]plan.OnSpec)
	if n.shape == shapeMapping && len(n.entries) > 0 {
		for _, e := range pairs(r, n, k.label(), k.what) {
			on := plan.OnSpec{}
			pathOfField.read(r, e.key, &on.Left)
			pathOfField.read(r, e.value, &on.Right)
			*into = append(*into, on)
		}
		return
	}
	if n.shape == shapeMapping {
		r.wrong(n, k.label())
		return
	}
	var fields []plan.Text
	textsKind{pathOfField}.read(r, n, &fields)
	for i, f := range fields {
		if slices.ContainsFunc(fields[:i], func(have plan.Text) bool { return have.Value == f.Value }) {
			r.problems.Add(f.Pos, "", "each field stands once", "on: %s is given twice", quote(f.Value))
			continue
		}
		*into = append(*into, plan.OnSpec{Left: f, Right: f})
	}
}

// withinKind is a time either way, or the two bounds.
type withinKind struct{}

var (
	withinSpan   = wholeMs{durationKind{most: durationMax}}
	withinObject = &object[plan.WithinSpec]{section: section{what: "within", list: []*setting{
		set("before", at(func(w *plan.WithinSpec) *int64 { return &w.BeforeMs }).is(withinSpan), "How far the right row may lie before the left one.", byDefault("0s")),
		set("after", at(func(w *plan.WithinSpec) *int64 { return &w.AfterMs }).is(withinSpan), "How far the right row may lie after the left one.", byDefault("0s")),
	}}}
)

func (withinKind) label() string {
	return withinSpan.label() + ", or {before: DURATION, after: DURATION}"
}
func (withinKind) settings() ([]*setting, string) { return withinObject.section.list, "" }
func (withinKind) schema() map[string]any {
	return map[string]any{"anyOf": []any{withinSpan.schema(), withinObject.section.schema()}}
}
func (withinKind) reads(**plan.WithinSpec) {}
func (withinKind) read(r *reader, n *node, place any) {
	into := place.(**plan.WithinSpec)
	w := &plan.WithinSpec{}
	*into = w
	if n.shape == shapeMapping {
		withinObject.fill(r, n, w)
	} else {
		withinSpan.read(r, n, &w.BeforeMs)
		w.AfterMs = w.BeforeMs
	}
	w.Pos = n.pos
}

var joinWindowSpan = wholeMs{durationKind{least: time.Millisecond, most: durationMax}}

var joinWindowObject = &object[plan.JoinWindowSpec]{place: func(w *plan.JoinWindowSpec, at plan.Pos) { w.Pos = at }, section: section{what: "the window of a join", unknown: func(key string) string {
	switch key {
	case "allowed_lateness", "early", "time":
		return "the windows of a join fire once, by event time; rows that come later go to STEP.late"
	case "count", "state":
		return "the windows of a join are tumbling, hopping or session"
	}
	return ""
}, list: []*setting{
	set("tumbling", at(func(w *plan.JoinWindowSpec) *int64 { return &w.TumblingMs }).is(joinWindowSpan),
		"Size of windows that lie side by side, aligned to 1970-01-01T00:00Z."),
	set("hopping", at(func(w *plan.JoinWindowSpec) *int64 { return &w.SizeMs }).is(joinWindowSpan),
		"Size of windows that overlap: one begins every slide."),
	set("slide", at(func(w *plan.JoinWindowSpec) *int64 { return &w.SlideMs }).is(joinWindowSpan), "From the start of one hopping window to that of the next."),
	set("offset", at(func(w *plan.JoinWindowSpec) *int64 { return &w.OffsetMs }).is(wholeMs{durationKind{most: durationMax}}),
		"Shifts tumbling and hopping windows.", byDefault("0s")),
	set("session", at(func(w *plan.JoinWindowSpec) *int64 { return &w.GapMs }).is(joinWindowSpan),
		"Sessions of both inputs together: a session ends when no row of the key came for so long."),
	set("touching", at(func(w *plan.JoinWindowSpec) *string { return &w.Touching }).is(choiceKind{words: []string{"merge", "split"}}),
		"Whether rows exactly so far apart are in one session.", byDefault("merge")),
}}, check: checkJoinWindow}

// checkJoinWindow brings what is written into one form.
func checkJoinWindow(r *reader, n *node, w *plan.JoinWindowSpec) {
	has := map[string]bool{}
	var given []string
	for _, e := range n.entries {
		has[e.key.text] = true
		if slices.Contains([]string{"tumbling", "hopping", "session"}, e.key.text) {
			given = append(given, e.key.text)
		}
	}
	const allowed = "one of tumbling: 1m, hopping: 1h with slide: 1m, session: 5m"
	switch {
	case len(given) == 0:
		r.problems.Add(n.pos, "", allowed, "the window of a join has no size")
	case len(given) > 1:
		r.problems.Add(n.pos, "", allowed, "the window of a join is %s at once", strings.Join(given, " and "))
	case given[0] == "hopping" && !has["slide"]:
		r.problems.Add(n.pos, "", "such as {hopping: 1h, slide: 1m}", "a hopping window has no slide")
	case given[0] != "hopping" && has["slide"]:
		r.problems.Add(n.pos, "", "slide is for hopping windows", "a %s window has a slide", given[0])
	case given[0] != "session" && has["touching"]:
		r.problems.Add(n.pos, "", "touching is for sessions", "a %s window has touching", given[0])
	case given[0] == "session" && has["offset"]:
		r.problems.Add(n.pos, "", "sessions begin with their first row", "a session window has an offset")
	}
	if w.TumblingMs > 0 {
		w.SizeMs, w.SlideMs = w.TumblingMs, w.TumblingMs
	}
	if w.SlideMs > 0 && w.OffsetMs >= w.SlideMs {
		r.problems.Add(n.pos, "", "an offset is below the size of a tumbling window, or the slide of a hopping one", "offset is not below the window's slide")
	}
	w.Split = w.Touching == "split"
}

var lookupFileKind = textKind{what: "a file such as devices.csv", allowed: "a .csv or .json file; a relative path is taken from the directory of the config",
	check: func(p string) string {
		if !strings.HasSuffix(p, ".csv") && !strings.HasSuffix(p, ".json") {
			return "the file is neither .csv nor .json"
		}
		for _, c := range p {
			if c < ' ' || c == 0x7F {
				return "the path holds a control character"
			}
		}
		return ""
	}}

var lookupObject = &object[plan.LookupSpec]{place: func(l *plan.LookupSpec, at plan.Pos) { l.Pos = at }, section: section{what: "lookup", list: []*setting{
	set("file", at(func(l *plan.LookupSpec) *plan.Text { return &l.File }).is(lookupFileKind),
		"CSV with a header, or a JSON array of objects; 8 MiB at most. Relative to the directory of the config. Read when the config is.", required()),
	set("on", at(func(l *plan.LookupSpec) *[]plan.OnSpec { return &l.On }).is(onKind{what: "on", left: "a field of the rows", right: "a column of the file"}),
		"Fields that name the row of the file: [device] where the file has the name, {device: id} where its column is called otherwise.", required()),
	set("columns", at(func(l *plan.LookupSpec) *[]plan.Text { return &l.Columns }).is(textsKind{fieldNameKind}), "Columns of the file that rows get. Left out: all but those of on."),
	set("missing", at(func(l *plan.LookupSpec) *plan.Text { return &l.Missing }).is(missingKind{}),
		"What becomes of a row whose key the file does not have: its columns are null, it is dropped, or it becomes a dead letter.", byDefault("null")),
}}}

// missingKind is null, drop or dead; null may be YAML's.
type missingKind struct{}

var missingWords = choiceText{choiceKind{words: []string{"null", "drop", "dead"}}}

func (missingKind) label() string { return missingWords.label() }
func (missingKind) schema() map[string]any {
	return map[string]any{"enum": []any{nil, "null", "drop", "dead"}}
}
func (missingKind) reads(*plan.Text) {}
func (missingKind) read(r *reader, n *node, place any) {
	into := place.(*plan.Text)
	if n.shape == shapeNull {
		*into = plan.Text{Value: "null", Pos: n.pos}
		return
	}
	missingWords.read(r, n, into)
}
