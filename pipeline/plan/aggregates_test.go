package plan

import (
	"testing"

	"github.com/weirstream/weir/pipeline"
)

func aggregateHash(t *testing.T, call string) [32]byte {
	t.Helper()
	w := windowStep("w", "s")
	w.Aggregate[1].Expr = text(call)
	return mustCompile(t, &Spec{Sources: []*SourceSpec{source("s")}, Steps: []*StepSpec{w}, Sinks: []*SinkSpec{fileSink("o", "w")}}).Hash
}

// TestSecondArgumentIsPartOfThePlan: how it is written is not.
func TestSecondArgumentIsPartOfThePlan(t *testing.T) {
	if aggregateHash(t, "percentile(temp, 95)") != aggregateHash(t, "percentile( temp,95.0 )") {
		t.Error("how a number is written changes the plan")
	}
	if aggregateHash(t, "percentile(temp, 95)") == aggregateHash(t, "percentile(temp, 96)") {
		t.Error("another percentage is the same plan")
	}
	if aggregateHash(t, "collect(temp, 1_000)") != aggregateHash(t, "collect(temp, 1000)") || aggregateHash(t, "collect(temp, 10)") == aggregateHash(t, "collect(temp, 1000)") {
		t.Error("the limit of collect is not what the plan knows")
	}
}

// TestKindsOfAggregates are those that later steps are checked against.
func TestKindsOfAggregates(t *testing.T) {
	for call, want := range map[string]pipeline.Kind{
		"stddev(temp)": pipeline.Float, "variance_samp(temp)": pipeline.Float, "median(temp)": pipeline.Float, "percentile(temp, 5)": pipeline.Float,
		"rate(temp)": pipeline.Float, "distinct(temp)": pipeline.Int, "collect(temp, 5)": pipeline.JSON, "increase(temp)": pipeline.Int,
	} {
		s := source("s")
		s.Fields = []FieldSpec{{text("temp"), pipeline.Int}, {text("ts"), pipeline.Int}}
		w := windowStep("w", "s")
		w.Aggregate[1].Expr = text(call)
		sum := filterStep("f", "w", "avg > 1")
		g, problems, _ := Compile(&Spec{Sources: []*SourceSpec{s}, Steps: []*StepSpec{w, sum}, Sinks: []*SinkSpec{fileSink("o", "f")}})
		if isNumber := want != pipeline.JSON; (g != nil) != isNumber {
			t.Errorf("%s > 1: %v", call, problems)
		}
		sum.Filter = pointer(text(`avg matches "x"`))
		if g, _, _ := Compile(&Spec{Sources: []*SourceSpec{s}, Steps: []*StepSpec{w, sum}, Sinks: []*SinkSpec{fileSink("o", "f")}}); g != nil {
			t.Errorf("%s is taken for a text", call)
		}
	}
}

func pointer[T any](v T) *T { return &v }
