package cases

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

type counterRow struct {
	Name     string
	Increase *int
	Rate     *float64
	Total    int
	C        int
}

func TestCase25_Counters(t *testing.T) {
	o := replay(t, "25", "25")
	says(t, "operators.md", "`cur >= prev`: `cur - prev`. Else, with a `wrap`, if `wrap - prev + cur <= max_step`: that. Else a reset: `cur`")
	type want struct {
		Steps []int
		Total int
	}
	wanted := map[string]want{
		"reset": expect[want](t, "25", "cnt/reset"), "u16": expect[want](t, "25", "cnt/u16 modulus 65536 max_step 1000"), "u16b": expect[want](t, "25", "cnt/u16b"),
		"u16reset": expect[want](t, "25", "cnt/u16reset (65536-65500+200=236 <= 1000 reads as a rollover)"),
		"late":     {Steps: []int{10, 10}, Total: 20}, // the expect file says it in words
	}
	steps := map[string][]int{}
	for _, r := range o.sinks["steps"] {
		row := decode[counterRow](t, r)
		if row.Increase == nil {
			if row.Rate != nil || steps[row.Name] != nil {
				t.Errorf("%s: a sample without increase is the first and has no rate", r)
			}
			continue
		}
		steps[row.Name] = append(steps[row.Name], *row.Increase)
		if *row.Rate != float64(*row.Increase) { // the samples are a second apart
			t.Errorf("%s: the rate is not that of the increase", r)
		}
	}
	totals := map[string]int{}
	for _, r := range o.sinks["totals"] {
		row := decode[counterRow](t, r)
		totals[row.Name] = row.Total
	}
	for name, w := range wanted {
		if !slices.Equal(steps[name], w.Steps) || totals[name] != w.Total {
			t.Errorf("%s: steps %v, total %d, want %+v", name, steps[name], totals[name], w)
		}
	}
	if len(totals) != len(wanted) {
		t.Errorf("totals %v", totals)
	}
}

// TestCase25_AsItCame: without a sort, the sample that is out of order is no reset.
func TestCase25_AsItCame(t *testing.T) {
	o := replay(t, "25", "25")
	var late []int
	for _, r := range o.sinks["came"] {
		if row := decode[counterRow](t, r); row.Name == "late" && row.Increase != nil {
			late = append(late, *row.Increase)
		}
	}
	if !slices.Equal(late, []int{10}) {
		t.Errorf("increases of cnt/late %v, want 500 to 510 alone", late)
	}
	if l := o.sinks["late"]; len(l) != 1 || decode[counterRow](t, l[0]).C != 490 {
		t.Errorf("late %v, want the sample 490", l)
	}
}

func TestCase29_Arrays(t *testing.T) {
	o := replay(t, "29", "29")
	says(t, "formats.md", "duplicate keys | refused where a step uses the key") // the choice: line 6 is refused
	want := expect[[][]any](t, "29", "exploded")
	var got [][]any
	for _, r := range o.sinks["exploded"] {
		row := decode[struct {
			ID   string
			Time float64
			V    any
			I    int
		}](t, r)
		got = append(got, []any{row.ID, row.Time, row.V})
		if row.ID == "P.4" && row.I != 3 || row.ID == "P.1" && row.I != 0 {
			t.Errorf("%s: wrong index", r)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("exploded %v, want %v", got, want)
	}
	each := o.counts.Steps[1]
	if each.UID != "each" || each.Dropped != 2 { // lines 2 and 3: no array. Line 1 is an empty one, no error
		t.Errorf("counts %+v, want 2 messages without an array", each)
	}
	var bad []string
	lines := map[int][]string{}
	for _, d := range o.dead {
		lines[d.Position-1] = append(lines[d.Position-1], d.Detail)
		if d.Reason == "element" && d.Position == 5 {
			at, _, _ := strings.Cut(d.Detail, ":")
			bad = append(bad, at)
		}
	}
	if !slices.Equal(bad, []string{"element 0", "element 1", "element 2"}) {
		t.Errorf("bad elements of line 4: %v", bad)
	}
	if d := lines[5]; len(d) != 1 || !strings.Contains(d[0], "nested deeper than 64 levels") {
		t.Errorf("line 5: %v", d)
	}
	if d := lines[6]; len(d) != 1 || !strings.Contains(d[0], "element 0: field v: the key comes twice") {
		t.Errorf("line 6: %v", d)
	}
	if len(lines) != 3 {
		t.Errorf("dead letters %v", lines)
	}
}
