package plan

import (
	"slices"
	"strings"
	"testing"
)

// TestKeyComesThrough: steps with a value per key say by which slots they are divided, and where the key comes out behind the columns that they
// add, also when a column hides the field that is the key.
func TestKeyComesThrough(t *testing.T) {
	hidden := deltaStep("hidden", "s", "k")
	hidden.By = texts("k")
	counter := &StepSpec{UID: text("counter"), From: texts("one"), By: texts("device")}
	counter.Counter = &CounterSpec{Value: text("temp"), As: text("n")}
	spec := &Spec{
		Sources: []*SourceSpec{source("s")},
		Steps:   []*StepSpec{deltaStep("one", "s", "d"), counter, hidden, selectStep("cols", "counter", "n", "x"), selectStep("late", "counter.late", "y")},
		Sinks:   []*SinkSpec{fileSink("a", "cols"), fileSink("b", "hidden"), fileSink("c", "late")},
	}
	g := mustCompile(t, spec)
	step := map[string]*Step{}
	for _, s := range g.Steps {
		step[s.UID] = s
	}
	// device goes through one and counter: the slot that comes out of one is the slot that the counter is divided by.
	one, count := step["one"].Keyed, step["counter"].Keyed
	if one == nil || count == nil || !slices.Equal(one.Out[0], count.In[0]) || len(count.Out) != 2 || !slices.Equal(count.Out[1], count.In[0]) {
		t.Errorf("one %+v, counter %+v", one, count)
	}
	for uid, s := range step {
		if s.Keyed == nil {
			continue
		}
		for i, slot := range s.Keyed.Out[0] {
			if s.Carries[0][slot] != s.Keyed.In[0][i] {
				t.Errorf("step %s: the key comes in by slot %d; slot %d, where it is said to come out, carries %d", uid, s.Keyed.In[0][i], slot, s.Carries[0][slot])
			}
		}
	}
	if h := step["hidden"]; h.Keyed == nil || h.Keyed.Out[0][0] == 0 {
		t.Errorf("the key of %+v is taken for the column that hides it", h)
	}
	spec.Parallelism = 2
	if said := Explain(spec, mustCompile(t, spec)); !strings.Contains(said, "one, counter") {
		t.Errorf("one and counter are no region:\n%s", said)
	}
}
