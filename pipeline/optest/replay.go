package optest

import (
	"fmt"
	"reflect"

	"pgregory.net/rapid"
)

// ReplayEquality runs the records once through, then with checkpoints, aborts, restores and crashes wherever t draws
// them, and fails t unless both made the same.
func ReplayEquality(t *rapid.T, c Config, records []Record) {
	c.Between = nil
	want, err := Run(c, records)
	if err != nil {
		t.Fatal(err)
	}
	c.Between = func(int) Checkpoint {
		return rapid.SampledFrom([]Checkpoint{None, None, None, Commit, Abort, Restore, Crash}).Draw(t, "between")
	}
	got, err := Run(c, records)
	if err != nil {
		t.Fatal(err)
	}
	if diff := Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

// Diff names the first difference of two results, "" when there is none.
func Diff(want, got Result) string {
	for p := range want.Ports {
		for i := range min(len(want.Ports[p]), len(got.Ports[p])) {
			if a, b := want.Ports[p][i], got.Ports[p][i]; !reflect.DeepEqual(a, b) {
				return fmt.Sprintf("port %d, row %d: want %+v, got %+v", p, i, a, b)
			}
		}
		if a, b := len(want.Ports[p]), len(got.Ports[p]); a != b {
			return fmt.Sprintf("port %d: want %d rows, got %d", p, a, b)
		}
	}
	if !reflect.DeepEqual(want.Dead, got.Dead) {
		return fmt.Sprintf("dead letters: want %+v, got %+v", want.Dead, got.Dead)
	}
	if want.Counters != got.Counters {
		return fmt.Sprintf("counters: want %+v, got %+v", want.Counters, got.Counters)
	}
	return ""
}
