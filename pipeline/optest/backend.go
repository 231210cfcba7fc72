package optest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline/state"
)

// image is everything that a checkpoint holds of the tables.
func (c *checkpoint) image() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.tables)) {
		entries := c.tables[name]
		for _, k := range slices.SortedFunc(maps.Keys(entries), func(a, b entryKey) int { return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.sub, b.sub)) }) {
			fmt.Fprintf(&b, "%s %q %q = %q\n", name, k.key, k.sub, entries[k])
		}
	}
	return b.String()
}

// BackendEquality runs the records once through with the tables in memory, then twice with checkpoints, aborts, restores and crashes wherever t
// draws them: with tables in memory, and with tables that large makes, of which some lives draw memory too, so that each restores what the other
// saved. All must have made the same, and the checkpoints must hold the same, byte for byte; unless expiring is set: which checkpoint an entry that went
// by its TTL leaves is not part of the promise.
func BackendEquality(t *rapid.T, c Config, records []Record, large func(state.Spec) *state.Table, expiring bool) {
	if diff := BackendDiff(t, c, records, large, expiring); diff != "" {
		t.Fatal(diff)
	}
}

// BackendDiff is BackendEquality that tells the first difference, "" when there is none.
func BackendDiff(t *rapid.T, c Config, records []Record, large func(state.Spec) *state.Table, expiring bool) (diff string) {
	defer func() {
		if r := recover(); r != nil {
			if text, ok := r.(string); !ok || !strings.HasPrefix(text, "BUG: ") {
				panic(r)
			}
			diff = fmt.Sprint(r)
		}
	}()
	c.Between, c.Table, c.Saved = nil, nil, nil
	want, err := Run(c, records)
	if err != nil {
		return err.Error()
	}
	between := rapid.SliceOfN(rapid.SampledFrom([]Checkpoint{None, None, None, Commit, Abort, Restore, Crash}), len(records), len(records)).Draw(t, "between")
	mixed := rapid.SliceOfN(rapid.Bool(), 1, 8).Draw(t, "memory again")
	c.Between = func(i int) Checkpoint { return between[i] }
	var images [2][]string
	for i := range images {
		life := 0
		c.Saved = func(image string) { images[i] = append(images[i], image) }
		if i == 1 {
			declared := map[string]bool{}
			c.Table = func(spec state.Spec) *state.Table {
				if declared[spec.Name] { // the next life
					clear(declared)
					life++
				}
				declared[spec.Name] = true
				if life%2 == 1 && mixed[life%len(mixed)] {
					return state.New(spec)
				}
				return large(spec)
			}
		}
		got, err := Run(c, records)
		if err != nil {
			return err.Error()
		}
		if diff := Diff(want, got); diff != "" {
			return diff
		}
	}
	for i := range images[0] {
		if !expiring && images[0][i] != images[1][i] {
			return fmt.Sprintf("checkpoint %d in memory\n%slarge\n%s", i, images[0][i], images[1][i])
		}
	}
	return ""
}
