package optest

import (
	"strings"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// BackendEquality draws what happens between the records and runs it three times: with tables in memory, with those that large makes, and with
// another kind at each restore. The results must be the same, and so must what each checkpoint holds and what the operator then waits for.
func BackendEquality(t *rapid.T, c Config, large func(state.Spec) *state.Table, records []Record) {
	if diff := BackendsDiffer(t, c, large, records); diff != "" {
		t.Fatal(diff)
	}
}

// BackendsDiffer is BackendEquality that tells the difference, "" for none.
func BackendsDiffer(t *rapid.T, c Config, large func(state.Spec) *state.Table, records []Record) string {
	plan := make([]Checkpoint, len(records))
	for i := range plan {
		plan[i] = rapid.SampledFrom([]Checkpoint{None, None, None, Commit, Abort, Restore, Crash}).Draw(t, "between")
	}
	c.Between = func(i int) Checkpoint { return plan[i] }
	var want Result
	var images []string
	for _, turn := range []struct {
		name  string
		large func(life int) bool
	}{
		{"in memory", func(int) bool { return false }},
		{"large", func(int) bool { return true }},
		{"in turn", func(life int) bool { return life%2 == 0 }},
	} {
		run, life, saved := c, 0, []string(nil)
		run.New = func() pipeline.Operator {
			life++
			return c.New()
		}
		run.Table = func(spec state.Spec) *state.Table {
			if turn.large(life) {
				return large(spec)
			}
			return state.New(spec)
		}
		run.Saved = func(image string) { saved = append(saved, image) }
		got, err := Run(run, records)
		if err != nil {
			return turn.name + ": " + err.Error()
		}
		if images == nil && want.Ports == nil {
			want, images = got, saved
			continue
		}
		if diff := Diff(want, got); diff != "" {
			return turn.name + ": " + diff
		}
		for i, image := range saved {
			if image != images[i] {
				return turn.name + ", a checkpoint holds " + strings.Join([]string{image, images[i]}, "\nwant\n")
			}
		}
	}
	return ""
}
