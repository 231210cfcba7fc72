package cases

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// windowRow holds the columns that the cases' windows have.
type windowRow struct {
	Start int64 `json:"window_start"`
	End   int64 `json:"window_end"`
	Count int   `json:"count"`
	Sum   int   `json:"sum"`
}

func windowRows(t *testing.T, records []string) (rows []windowRow) {
	t.Helper()
	for _, r := range records {
		rows = append(rows, decode[windowRow](t, r))
	}
	return rows
}

// wantWindow is a window of an expect file.
type wantWindow struct {
	Start int64 `json:"start_ms"`
	Count int
	Sum   int
}

func compareWindows(t *testing.T, got []windowRow, want []wantWindow) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d windows %v, want %d", len(got), got, len(want))
	}
	for i, w := range want {
		if got[i].Start != w.Start || got[i].Count != w.Count || got[i].Sum != w.Sum {
			t.Errorf("window %d is %+v, want %+v", i, got[i], w)
		}
	}
}

func TestCase01_IntegersStayExact(t *testing.T) {
	o := replay(t, "01", "01")
	const uint64Max = "18446744073709551615" // the choice: kept exact
	says(t, "formats.md", "exact from -2^63 to 2^64-1")
	want := append(expect[[]string](t, "01", "pass_through_id_text"), uint64Max)
	var whole, ids []string
	for _, r := range o.sinks["whole"] {
		whole = append(whole, string(decode[struct{ ID json.RawMessage }](t, r).ID))
	}
	for _, r := range o.sinks["ids"] {
		ids = append(ids, string(decode[struct{ ID json.RawMessage }](t, r).ID))
	}
	if !slices.Equal(whole, append(slices.Clone(want), "1e3")) {
		t.Errorf("documents passed on hold %v", whole)
	}
	if !slices.Equal(ids, append(slices.Clone(want), "1000")) { // declared int: 1e3 is 1000
		t.Errorf("selected ids are %v", ids)
	}
	if f := o.sinks["found"]; len(f) != 1 || !strings.Contains(f[0], `"ts":1767225602000`) {
		t.Errorf("the filter finds %v, want line 2 alone", f)
	}
	if f := o.sinks["total"]; len(f) != 1 || !strings.Contains(f[0], `"sum":`+expect[string](t, "01", "sum_first_three")+",") {
		t.Errorf("sum of the first three: %v", f)
	}
	if f := o.sinks["largest"]; len(f) != 1 || !strings.Contains(f[0], `"max":`+expect[string](t, "01", "max_of_all_int64")+",") {
		t.Errorf("largest: %v", f)
	}
}

func TestCase02_UnitsOfTime(t *testing.T) {
	o := replay(t, "02", "02")
	var times []int64
	for _, r := range o.sinks["times"] {
		times = append(times, decode[struct{ Time int64 }](t, r).Time)
	}
	if want := expect[[]int64](t, "02", "event_time_ms"); !slices.Equal(times, want) {
		t.Errorf("event times %v, want %v", times, want)
	}
	if got, want := o.deadLines(), []int{6, 7}; !slices.Equal(got, want) {
		t.Errorf("dead letters of lines %v, want %v", got, want)
	}
	for _, d := range o.dead {
		if d.Reason != "time" || !strings.Contains(d.Detail, "sane range") {
			t.Errorf("dead letter %+v", d)
		}
	}
	if got := windowRows(t, o.sinks["minutes"]); len(got) != 1 || got[0].Start != 1767225600000 {
		t.Errorf("windows %v, want that of line 1 alone", got)
	}
	if w := o.sinks["whole"]; len(w) != 1 || !strings.Contains(w[0], `"ts":`+expect[string](t, "02", "ns value passed through unchanged")+",") {
		t.Errorf("nanoseconds passed on: %v", w)
	}
	if len(o.sinks["late"]) > 0 {
		t.Errorf("late: %v", o.sinks["late"])
	}
}

func TestCase05_NaN(t *testing.T) {
	o := replay(t, "05", "05")
	says(t, "formats.md", "one bad value is one dead letter") // the choice: line 5 is refused as a whole, b has 4 values
	want := append(expect[[]int](t, "05", "dead_letter_lines"), 5)
	slices.Sort(want)
	if got := o.deadLines(); !slices.Equal(got, want) {
		t.Errorf("dead letters of lines %v, want %v", got, want)
	}
	messages := lines(t, "05")
	for _, d := range o.dead {
		if d.Payload != messages[d.Position-1].Payload {
			t.Errorf("dead letter of line %d holds %q", d.Position-1, d.Payload)
		}
	}
	type aggregate struct {
		Count         int
		Avg, Min, Max float64
	}
	if len(o.sinks["minutes"]) != 1 {
		t.Fatalf("windows %v", o.sinks["minutes"])
	}
	row := o.sinks["minutes"][0]
	if a := decode[aggregate](t, row); a != expect[aggregate](t, "05", "tumbling 1m of a") {
		t.Errorf("a: %+v", a)
	}
	b := decode[struct {
		N   int     `json:"b_count"`
		Avg float64 `json:"b_avg"`
	}](t, row)
	if b.N != 4 || b.Avg != 45.75 {
		t.Errorf("b: %+v", b)
	}
}

func TestCase07_Tombstones(t *testing.T) {
	o := replay(t, "07", "07")
	var values []int
	for _, r := range o.sinks["values"] {
		values = append(values, decode[struct{ V int }](t, r).V)
	}
	if want := expect[[]int](t, "07", "values"); !slices.Equal(values, want) {
		t.Errorf("values %v, want %v", values, want)
	}
	if s := o.counts.Sources[0]; s.Tombstones != expect[int](t, "07", "tombstones") || s.Dead != expect[int](t, "07", "parse_errors") {
		t.Errorf("counts %+v", s)
	}
}

func TestCase17_OneEventAhead(t *testing.T) {
	o := replay(t, "17", "17")
	compareWindows(t, windowRows(t, o.sinks["minutes"]), expect[[]wantWindow](t, "17", "windows"))
	var refused []int
	for _, d := range o.dead {
		refused = append(refused, decode[struct{ V int }](t, d.Payload).V)
	}
	if want := expect[[]int](t, "17", "quarantined"); !slices.Equal(refused, want) {
		t.Errorf("dead letters of v %v, want %v", refused, want)
	}
	if late := o.counts.Steps[0].Late; late != expect[int](t, "17", "late_dropped") || len(o.sinks["late"]) != late {
		t.Errorf("late: counted %d, given %v", late, o.sinks["late"])
	}
}

func TestCase19_YesterdaysEvents(t *testing.T) {
	o := replay(t, "19", "19")
	compareWindows(t, windowRows(t, o.sinks["minutes"]), expect[[]wantWindow](t, "19", "tumbling 1m"))
}

func TestCase27_RepeatsByID(t *testing.T) {
	o := replay(t, "27", "27")
	compareWindows(t, windowRows(t, o.sinks["seconds"]), expect[[]wantWindow](t, "27", "tumbling 1s (out-of-orderness 4s)"))
	all := expect[wantWindow](t, "27", "after dedup on msg_id")
	if got := windowRows(t, o.sinks["days"]); len(got) != 1 || got[0].Count != all.Count || got[0].Sum != all.Sum {
		t.Errorf("in all %v, want %+v", got, all)
	}
	says(t, "operators.md", "Whether the broker called a copy a duplicate plays no part.")
	if len(o.sinks["late"]) > 0 || len(o.dead) > 0 {
		t.Errorf("late %v, dead %v", o.sinks["late"], o.dead)
	}
}

type emsRow struct {
	What  string
	T     *float64
	Value any
}

func TestCase30_DecodersByTopic(t *testing.T) {
	o := replay(t, "30", "30")
	says(t, "formats.md", "byte order mark | one at the very start is skipped") // the choice: line 2 is 56
	want := expect[[]float64](t, "30", "json t")
	want = slices.Insert(want, 1, 56)
	var temps, raw []float64
	var status []string
	for _, r := range o.sinks["all"] {
		row := decode[emsRow](t, r)
		switch {
		case row.T != nil:
			temps = append(temps, *row.T)
		case row.What == "raw":
			raw = append(raw, row.Value.(float64))
		case row.What == "status":
			status = append(status, row.Value.(string))
		case row.What == "bin":
			b, err := base64.StdEncoding.DecodeString(row.Value.(string))
			if err != nil || sha256.Sum256(b) != sha256.Sum256(lines(t, "30")[5].bytes()) {
				t.Errorf("bytes arrived as %v (%v)", row.Value, err)
			}
		}
	}
	if !slices.Equal(temps, want) || !slices.Equal(raw, []float64{29.700001, 57}) || !slices.Equal(status, []string{"online", "offline"}) {
		t.Errorf("json %v, raw %v, status %v", temps, raw, status)
	}
	if got := o.deadLines(); !slices.Equal(got, []int{6}) {
		t.Errorf("dead letters of lines %v, want the two documents in one payload", got)
	}
}

func TestCase30_WithoutDecoders(t *testing.T) {
	o := replay(t, "30-json", "30")
	var temps []float64
	for _, r := range o.sinks["all"] {
		if row := decode[emsRow](t, r); row.T != nil {
			temps = append(temps, *row.T)
		}
	}
	if fmt.Sprint(temps) != "[55.5 56 59]" {
		t.Errorf("json %v", temps)
	}
	if got := o.deadLines(); !slices.Equal(got, []int{1, 5, 6, 8}) { // bare numbers are JSON documents
		t.Errorf("dead letters of lines %v", got)
	}
	for _, d := range o.dead {
		if d.Topic == "ems/bin" && !bytes.Equal(d.Raw, lines(t, "30")[5].bytes()) {
			t.Error("the bytes are not kept")
		}
	}
}
