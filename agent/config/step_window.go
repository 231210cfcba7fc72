package config

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/plan"
)

// slide is what the slide of a window is written as: a duration, or a number of rows.
type slide struct {
	ms, rows int64
}

// slideKind reads either.
type slideKind struct{}

var slideDuration = wholeMs{durationKind{least: time.Millisecond, most: durationMax}}

func (slideKind) label() string { return "a duration such as 1s, or for count a number of rows" }
func (slideKind) schema() map[string]any {
	return map[string]any{"anyOf": []any{slideDuration.schema(), map[string]any{"type": "integer", "minimum": 1}}}
}
func (slideKind) reads(*slide) {}
func (k slideKind) read(r *reader, n *node, place any) {
	into := place.(*slide)
	if rows, err := strconv.ParseInt(n.text, 10, 64); n.shape == shapeScalar && err == nil {
		if rows < 1 {
			r.wrong(n, k.label())
			return
		}
		into.rows = rows
		return
	}
	slideDuration.read(r, n, &into.ms)
}

// runKind is a condition, or a mapping of two.
type runKind struct{}

var runObject = &object[plan.RunSpec]{section: section{what: "state", list: []*setting{
	set("begin", at(func(s *plan.RunSpec) *plan.Text { return &s.Begin }).is(expressionKind), "Condition of the row that begins a window.", required()),
	set("end", at(func(s *plan.RunSpec) *plan.Text { return &s.End }).is(expressionKind), "Condition of the row that ends it, as its last.", required()),
}}}

func (runKind) label() string { return "a condition, or {begin: condition, end: condition}" }
func (runKind) schema() map[string]any {
	return map[string]any{"anyOf": []any{expressionKind.schema(), runObject.section.schema()}}
}
func (runKind) reads(**plan.RunSpec) {}
func (runKind) read(r *reader, n *node, place any) {
	into := place.(**plan.RunSpec)
	*into = &plan.RunSpec{}
	if n.shape == shapeMapping {
		runObject.fill(r, n, *into)
		return
	}
	expressionKind.read(r, n, &(*into).Begin)
}

// windowSetting is a window as written: sizes of each kind, one of which is given.
type windowSetting struct {
	plan.WindowSpec
	tumbling, hopping, session int64
	slide                      slide
	touching, time             string
}

// windowKinds are the settings that each kind of window has besides the one that names it.
var windowKinds = []struct {
	name     string
	settings []string
}{
	{plan.WindowTumbling, []string{"offset", "allowed_lateness", "early", "time"}},
	{plan.WindowHopping, []string{"slide", "offset", "allowed_lateness", "early", "time"}},
	{plan.WindowSession, []string{"touching", "allowed_lateness", "early", "time"}},
	{plan.WindowCount, []string{"slide"}},
	{plan.WindowState, nil},
}

const windowKindNames = "a window is one of tumbling, hopping, session, count, state"

var windowSettings = &object[windowSetting]{place: func(w *windowSetting, at plan.Pos) { w.Pos = at }, section: section{what: "window", unknown: func(key string) string {
	if slices.Contains([]string{"sliding", "cumulate", "global"}, key) {
		return windowKindNames
	}
	return ""
}, list: []*setting{
	set("tumbling", at(func(w *windowSetting) *int64 { return &w.tumbling }).is(wholeMs{durationKind{least: time.Millisecond, most: durationMax}}),
		"Size of the windows; they lie side by side, aligned to 1970-01-01T00:00Z."),
	set("hopping", at(func(w *windowSetting) *int64 { return &w.hopping }).is(wholeMs{durationKind{least: time.Millisecond, most: durationMax}}),
		"Size of windows that begin every slide and overlap."),
	set("session", at(func(w *windowSetting) *int64 { return &w.session }).is(wholeMs{durationKind{least: time.Millisecond, most: durationMax}}),
		"Gap without rows of the key that ends a session."),
	set("count", at(func(w *windowSetting) *int64 { return &w.Rows }).is(int64Kind{1, math.MaxInt32}),
		"Size of the windows in rows of the key, in the order of arrival."),
	set("state", at(func(w *windowSetting) **plan.RunSpec { return &w.State }).is(runKind{}),
		"Condition that holds for all rows of a window, in the order of arrival; or {begin, end}: from a row to a row."),
	set("slide", at(func(w *windowSetting) *slide { return &w.slide }).is(slideKind{}),
		"Of hopping: how far the next window begins behind one. Of count: after how many rows the last ones come out; left out, the size."),
	set("offset", at(func(w *windowSetting) *int64 { return &w.OffsetMs }).is(wholeMs{durationKind{most: durationMax}}),
		"Shifts the windows, such as 6h for days that begin at six.", byDefault("0s")),
	set("touching", at(func(w *windowSetting) *string { return &w.touching }).is(choiceKind{words: []string{"merge", "split"}}),
		"Of session: whether rows exactly the gap apart are one session (merge) or two (split).", byDefault("merge")),
	set("allowed_lateness", at(func(w *windowSetting) *int64 { return &w.LatenessMs }).is(wholeMs{durationKind{most: durationMax}}),
		"How long a window that fired still takes rows; each fires it again with a higher revision. Later ones go to STEP.late.", byDefault("0s")),
	set("early", at(func(w *windowSetting) *int64 { return &w.EarlyMs }).is(wholeMs{durationKind{least: time.Millisecond, most: durationMax}}),
		"An open window comes out every so often, when rows were added, with the next revision."),
	set("time", at(func(w *windowSetting) *string { return &w.time }).is(choiceKind{words: []string{"event", "processing"}}),
		"event: the time of the rows; processing: the wall clock of the journal when they came.", byDefault("event")),
}}, check: checkWindow}

// checkWindow finds the kind and what does not belong to it.
func checkWindow(r *reader, n *node, w *windowSetting) {
	given := map[string]plan.Pos{}
	for _, e := range n.entries {
		given[e.key.text] = e.key.pos
	}
	var own []string
	for _, k := range windowKinds {
		if _, ok := given[k.name]; !ok {
			continue
		}
		if w.Kind != "" {
			r.problems.Add(given[k.name], "", windowKindNames, "window is %s and %s at once", w.Kind, k.name)
			return
		}
		w.Kind, own = k.name, k.settings
	}
	if w.Kind == "" {
		if n.shape == shapeMapping && !slices.ContainsFunc(n.entries, func(e entry) bool { return windowSettingsUnknown(e.key.text) }) {
			r.problems.Add(n.pos, "", windowKindNames+", such as {tumbling: 1m}", "window has no kind")
		}
		return
	}
	allowed := strings.Join(append([]string{w.Kind}, own...), ", ")
	for _, e := range n.entries {
		if k := e.key.text; k != w.Kind && !slices.Contains(own, k) && !windowSettingsUnknown(k) {
			r.problems.Add(e.key.pos, "", "a "+w.Kind+" window has "+allowed, "%s does not go with %s", k, w.Kind)
		}
	}
	w.SizeMs = w.tumbling + w.hopping + w.session // one of them is given
	w.Split, w.Processing = w.touching == "split", w.time == "processing"
	w.slides(r, n, given["slide"])
	if step := w.step(); step > 0 && w.OffsetMs >= step {
		r.problems.Add(n.pos, "", "an offset is below the "+map[bool]string{true: "slide", false: "size"}[w.Kind == plan.WindowHopping],
			"offset is not below the window's %s", map[bool]string{true: "slide", false: "size"}[w.Kind == plan.WindowHopping])
	}
	w.effect(r, given)
	w.SlidePos = given["slide"]
}

func windowSettingsUnknown(key string) bool {
	return !slices.Contains([]string{"tumbling", "hopping", "session", "count", "state", "slide", "offset", "touching", "allowed_lateness", "early", "time"}, key)
}

// slides checks the slide against the kind.
func (w *windowSetting) slides(r *reader, n *node, at plan.Pos) {
	switch {
	case w.Kind == plan.WindowHopping && w.slide == slide{} && at == plan.Pos{}:
		r.problems.Add(n.pos, "", "slide: how far the next window begins behind one, such as 1m", "hopping has no slide")
	case w.Kind == plan.WindowHopping && w.slide.rows > 0:
		r.problems.Add(at, "", "a duration such as 1s", "the slide of hopping is a number of rows")
	case w.Kind == plan.WindowCount && w.slide.ms > 0:
		r.problems.Add(at, "", "a number of rows", "the slide of count is a duration")
	}
	w.SlideMs, w.SlideRows = w.slide.ms, w.slide.rows
	if w.Kind == plan.WindowCount && w.SlideRows == 0 {
		w.SlideRows = w.Rows
	}
}

// step is how far aligned windows begin from one another.
func (w *windowSetting) step() int64 {
	switch w.Kind {
	case plan.WindowTumbling:
		return w.SizeMs
	case plan.WindowHopping:
		return w.SlideMs
	}
	return 0
}

// windowKind reads a window into what the plan takes.
type windowKind struct{}

func (windowKind) label() string                  { return windowSettings.section.label() }
func (windowKind) schema() map[string]any         { return windowSettings.section.schema() }
func (windowKind) settings() ([]*setting, string) { return windowSettings.section.list, "" }
func (windowKind) reads(**plan.WindowSpec)        {}
func (windowKind) read(r *reader, n *node, place any) {
	into := place.(**plan.WindowSpec)
	var w windowSetting
	windowSettings.fill(r, n, &w)
	spec := w.WindowSpec
	*into = &spec
}

// int64Kind is intKind for an int64.
type int64Kind struct{ least, most int }

func (k int64Kind) of() intKind            { return intKind{k.least, k.most} }
func (k int64Kind) label() string          { return k.of().label() }
func (k int64Kind) schema() map[string]any { return k.of().schema() }
func (int64Kind) reads(*int64)             {}
func (k int64Kind) read(r *reader, n *node, place any) {
	into := place.(*int64)
	var v int
	k.of().read(r, n, &v)
	*into = int64(v)
}

var topObject = &object[plan.TopSpec]{place: func(t *plan.TopSpec, at plan.Pos) { t.Pos = at }, section: section{what: "top", list: []*setting{
	set("n", at(func(t *plan.TopSpec) *int { return &t.N }).is(intKind{1, 1000}), "How many rows of a window are kept.", required()),
	set("order", at(func(t *plan.TopSpec) *plan.Text { return &t.Order }).is(expressionKind), "Expression, and asc (the default) or desc, such as temp desc. Null comes last.", required()),
	set("ties", at(func(t *plan.TopSpec) *bool { return &t.Ties }).is(boolKind{}), "Rows equal to the last one are kept as well.", byDefault("false")),
}}}
