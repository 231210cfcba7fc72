package cases

import (
	"slices"
	"testing"
)

// TestCase04_LocalTimesOverTheChangesOfTheClock: six readings in, six rows out, under both policies of the case.
func TestCase04_LocalTimesOverTheChangesOfTheClock(t *testing.T) {
	type reading struct{ Seq, Time int64 }
	times := func(o outcome) (list []int64) {
		for i, r := range o.sinks["rows"] {
			row := decode[reading](t, r)
			if row.Seq != int64(i) && row.Seq != 90 {
				t.Errorf("row %d is reading %d", i, row.Seq)
			}
			list = append(list, row.Time)
		}
		return list
	}
	first := replay(t, "04", "04")
	if got, want := times(first), expect[[]int64](t, "04", "policy earlier"); !slices.Equal(got, want) {
		t.Errorf("fold: first gives %v, want %v", got, want)
	}
	if len(first.dead) != 1 || first.dead[0].Reason != "time" || first.dead[0].Position != 7 {
		t.Errorf("the reading in the gap: %+v", first.dead)
	}
	says(t, "formats.md", "`gap: reject` (the default) makes such a text a dead letter") // the choice
	nearest := replay(t, "04-nearest", "04")
	want := append(expect[[]int64](t, "04", "policy by arrival (fold when the local clock steps back in seq order)"), 1774747800000)
	if got := times(nearest); !slices.Equal(got, want) {
		t.Errorf("fold: nearest, gap: shift give %v, want %v", got, want)
	}
	if n := expect[int](t, "04", "rows_upstream"); len(first.sinks["rows"]) != n || len(nearest.sinks["rows"]) != n+1 {
		t.Errorf("%d and %d rows, want %d, and the shifted one", len(first.sinks["rows"]), len(nearest.sinks["rows"]), n)
	}
}
