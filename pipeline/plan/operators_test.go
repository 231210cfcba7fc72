package plan

import (
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

func splitStep(uid, from string, ports ...string) *StepSpec {
	s := &StepSpec{UID: text(uid), From: texts(from)}
	s.Split = &SplitSpec{}
	for i := 0; i < len(ports); i += 2 {
		s.Split.Ports = append(s.Split.Ports, ColumnSpec{text(ports[i]), text(ports[i+1])})
	}
	return s
}

func deltaStep(uid, from, as string) *StepSpec {
	s := &StepSpec{UID: text(uid), From: texts(from), By: texts("device")}
	s.Delta = &DeltaSpec{Value: text("temp"), As: text(as)}
	return s
}

func selectStep(uid, from string, columns ...string) *StepSpec {
	s := &StepSpec{UID: text(uid), From: texts(from), Select: &SelectSpec{}}
	for _, c := range columns {
		s.Select.Columns = append(s.Select.Columns, ColumnSpec{text(c), text(c)})
	}
	return s
}

func TestPortsByName(t *testing.T) {
	spec := &Spec{
		Sources: []*SourceSpec{source("s")},
		Steps:   []*StepSpec{splitStep("heat", "s", "hot", "temp > 30", "cold", "temp < 0"), filterStep("f", "heat.cold", "x > 1"), filterStep("g", "heat.rest", "x > 1")},
		Sinks:   []*SinkSpec{fileSink("a", "f"), fileSink("b", "g")},
	}
	g, problems, warnings := Compile(spec)
	if g == nil {
		t.Fatal(problems)
	}
	if in := g.Steps[1].Inputs[0]; in != (Ref{Step: 0, Port: 1}) {
		t.Errorf("f reads %+v", in)
	}
	if in := g.Steps[2].Inputs[0]; in != (Ref{Step: 0, Port: 2}) {
		t.Errorf("g reads %+v", in)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0].String(), "nothing reads heat.hot") {
		t.Errorf("warnings %v", warnings)
	}
	if said := Explain(spec, g); !strings.Contains(said, "from heat.cold") || !strings.Contains(said, "from heat.rest") {
		t.Errorf("explained as\n%s", said)
	}
}

// slotsIn keeps what an operator declares.
type slotsIn struct{}

func (slotsIn) Table(spec state.Spec) (*state.Table, error) { return state.New(spec), nil }

// TestAddedColumnsAreCarried: fields that are asked for behind steps that add columns come through them, of one and of a
// union, and into what a sink writes.
func TestAddedColumnsAreCarried(t *testing.T) {
	g := mustCompile(t, &Spec{
		Sources: []*SourceSpec{source("s")},
		Steps: []*StepSpec{deltaStep("one", "s", "d1"), deltaStep("two", "one", "d2"), deltaStep("other", "s", "d3"),
			{UID: text("u"), From: texts("two", "other")}, selectStep("cols", "u", "device", "temp", "later", "d1", "d2", "d3")},
		Sinks: []*SinkSpec{fileSink("a", "cols"), fileSink("whole", "two")},
	})
	var names []string
	for _, c := range g.Sinks[1].Columns {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, " "); got != "device d1 d2" || g.Sinks[1].Whole < 0 {
		t.Errorf("the sink writes %s, the document in slot %d", got, g.Sinks[1].Whole)
	}
	// one row through all: its slots by the columns of the source
	row := &pipeline.Row{Slots: make([]pipeline.Value, g.Sources[0].Width)}
	for _, c := range g.Sources[0].Columns {
		row.Slots[c.Slot] = pipeline.StringValue(c.Name)
		if c.Name == "temp" {
			row.Slots[c.Slot] = pipeline.IntValue(20)
		}
	}
	rows := map[int]*pipeline.Row{}
	for i, s := range g.Steps {
		op, out := s.New(), pipeline.NewOut(s.UID, s.Ports)
		if err := op.Open(slotsIn{}); err != nil {
			t.Fatal(err)
		}
		in := row
		if s.Inputs[0].Step >= 0 {
			in = rows[s.Inputs[0].Step]
		}
		op.Process(0, in, out)
		if len(out.Ports[0]) == 0 || len(out.Ports[0][0].Slots) != s.Width {
			t.Fatalf("step %s makes %v, want rows of %d slots", s.UID, out.Ports[0], s.Width)
		}
		rows[i] = &out.Ports[0][0]
	}
	last := g.Steps[len(g.Steps)-1]
	for _, c := range last.Columns {
		v := rows[len(g.Steps)-1].Slots[c.Slot]
		switch {
		case c.Name == "d3": // the row came by the other input, whose payload may have a field of that name
			if v.Str != "d3" {
				t.Errorf("d3 holds %v", v)
			}
		case c.Name == "device" && v.Str != "device", c.Name == "temp" && v.Int() != 20, c.Name == "later" && v.Str != "later":
			t.Errorf("column %s holds %v", c.Name, v)
		case strings.HasPrefix(c.Name, "d") && c.Name != "device" && !v.IsNull():
			t.Errorf("the first row has a difference: %s %v", c.Name, v)
		}
	}
}

func TestColumnsAreOfOneName(t *testing.T) {
	for name, steps := range map[string][]*StepSpec{
		"another column":       {deltaStep("one", "s", "d"), deltaStep("two", "one", "d")},
		"a level of the topic": {deltaStep("two", "s", "device")},
		"a column of a select": {selectStep("one", "s", "temp", "device", "d"), deltaStep("two", "one", "d")},
	} {
		_, problems, _ := Compile(&Spec{Sources: []*SourceSpec{source("s")}, Steps: steps, Sinks: []*SinkSpec{fileSink("a", "two")}})
		if len(problems) != 1 || !strings.Contains(problems[0].String(), "would have two columns") {
			t.Errorf("%s: %v", name, problems)
		}
	}
}

// TestCastOfADocumentIsSaid: a sink that writes the document as it came does not show a cast.
func TestCastOfADocumentIsSaid(t *testing.T) {
	cast := &StepSpec{UID: text("typed"), From: texts("s")}
	cast.Cast = &CastSpec{Fields: []CastField{{Name: text("temp"), Type: "string"}}}
	spec := &Spec{
		Sources: []*SourceSpec{source("s")},
		Steps:   []*StepSpec{cast, deltaStep("d", "s", "delta"), selectStep("cols", "typed", "temp"), filterStep("f", "typed", `temp startsWith "2"`)},
		Sinks:   []*SinkSpec{fileSink("whole", "f"), fileSink("columns", "cols"), fileSink("delta", "d")},
	}
	g, problems, warnings := Compile(spec)
	if g == nil {
		t.Fatal(problems)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0].String(), "sink whole writes the document as it came") {
		t.Errorf("warnings %v", warnings)
	}
	if c := g.Steps[2].Columns[0]; c.Name != "temp" || c.Kind != pipeline.String {
		t.Errorf("behind the cast temp is %+v", c)
	}
}

// TestSortBehindAddedColumns: what a sort holds is kept slot by slot: another layout is another state.
func TestSortBehindAddedColumns(t *testing.T) {
	params := func(fields ...string) string {
		event := text("event_time")
		g := mustCompile(t, &Spec{
			Sources: []*SourceSpec{source("s")},
			Steps:   []*StepSpec{deltaStep("d", "s", "delta"), {UID: text("sorted"), From: texts("d"), Sort: &event}, selectStep("cols", "sorted", fields...)},
			Sinks:   []*SinkSpec{fileSink("a", "cols")},
		})
		return g.Steps[1].Params
	}
	one, other := params("delta", "x"), params("delta", "y")
	if one == other || !strings.Contains(one, `"delta" "device" "x"`) {
		t.Errorf("layouts %s and %s", one, other)
	}
}

// TestOperatorsAreDeterministic: what they make may leave at once.
func TestOperatorsAreDeterministic(t *testing.T) {
	every := map[string]func(*StepSpec){
		KindChanged:  func(s *StepSpec) { s.Changed = &ChangedSpec{Value: text("temp")} },
		KindLag:      func(s *StepSpec) { s.Lag = &LagSpec{Value: text("temp"), N: 1, As: text("prev")} },
		KindDelta:    func(s *StepSpec) { s.Delta = &DeltaSpec{Value: text("temp"), As: text("delta")} },
		KindCounter:  func(s *StepSpec) { s.Counter = &CounterSpec{Value: text("temp"), As: text("increase")} },
		KindZScore:   func(s *StepSpec) { s.ZScore = &ZScoreSpec{Value: text("temp"), N: 2, Limit: 1} },
		KindThrottle: func(s *StepSpec) { s.Throttle = &ThrottleSpec{IntervalNs: 1e9} },
		KindSample:   func(s *StepSpec) { s.Sample = &SampleSpec{Every: 2} },
		KindAbsence:  func(s *StepSpec) { s.Absence = &AbsenceSpec{AfterNs: 1e9} },
		KindFlatten: func(s *StepSpec) {
			s.Flatten = &FlattenSpec{Field: text("list"), As: text("e"), ElementsMax: 1, MaxMs: 1}
		},
		KindCast: func(s *StepSpec) { s.Cast = &CastSpec{Fields: []CastField{{Name: text("temp"), Type: "int"}}} },
	}
	for kind, part := range every {
		spec := func(max int) *Spec {
			s := &StepSpec{UID: text("step"), From: texts("s")}
			part(s)
			if kinds[kind].by {
				s.By = texts("device")
			}
			if max > 0 {
				s.MaxKeys = &max
			}
			sink := fileSink("out", "step")
			sink.Commit = text(CommitImmediate)
			return &Spec{Sources: []*SourceSpec{source("s")}, Steps: []*StepSpec{s}, Sinks: []*SinkSpec{sink}}
		}
		g := mustCompile(t, spec(0))
		step := g.Steps[0]
		if step.Kind != kind || step.Stateful != kinds[kind].state || !step.Deterministic || step.Behaviour != 1 || step.Params == "" {
			t.Errorf("%s: %+v", kind, step)
		}
		if _, problems, _ := (&compiler{spec: spec(0), chance: "step"}).compile(); len(problems) != 1 || !strings.Contains(problems[0].String(), "cannot commit immediately") {
			t.Errorf("%s, were it not deterministic: %v", kind, problems)
		}
		g, problems, _ := Compile(spec(7))
		switch {
		case step.Stateful && (g == nil || g.Hash == mustCompile(t, spec(0)).Hash):
			t.Errorf("%s: another max_keys is another meaning: %v", kind, problems)
		case !step.Stateful && len(problems) != 1:
			t.Errorf("%s takes max_keys and keeps nothing: %v", kind, problems)
		}
	}
}

// TestAbsenceByATimeThatStandsStill is said.
func TestAbsenceByATimeThatStandsStill(t *testing.T) {
	warned := func(event bool, idle *IdleSpec) int {
		s := source("s")
		s.Idle = idle
		step := &StepSpec{UID: text("silent"), From: texts("f"), By: texts("device")}
		step.Absence = &AbsenceSpec{AfterNs: 1e9, EventTime: event}
		_, problems, warnings := Compile(&Spec{Sources: []*SourceSpec{s}, Steps: []*StepSpec{filterStep("f", "s", "x > 1"), step}, Sinks: []*SinkSpec{fileSink("o", "silent")}})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		return len(warnings)
	}
	if n := warned(true, nil); n != 1 {
		t.Errorf("%d warnings of event time without an idle rule", n)
	}
	if n := warned(true, &IdleSpec{AfterNs: 1e9}); n != 1 {
		t.Errorf("%d warnings of event time that is held", n)
	}
	if n := warned(true, &IdleSpec{AfterNs: 1e9, Advance: true}) + warned(false, nil); n != 0 {
		t.Errorf("%d warnings of time that goes on", n)
	}
}
