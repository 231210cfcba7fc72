package join_test

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/join"
	"github.com/weirstream/weir/pipeline/optest"
)

func table(t testing.TB, name, text string, key ...string) *join.Table {
	t.Helper()
	table, err := join.Parse(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var columns []int
	for _, k := range key {
		columns = append(columns, table.Column(k))
	}
	if err := table.By(columns); err != nil {
		t.Fatal(err)
	}
	return table
}

// find looks one value up: the first column that is not the key, or what became of the row.
func find(t *testing.T, table *join.Table, missing join.Missing, key pipeline.Value) (v pipeline.Value, what string) {
	t.Helper()
	c := join.LookupConfig{Key: []int{0}, Table: table, Take: []int{1}, Slots: []int{1}, Carry: []int{0, -1}, Missing: missing}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	result, err := optest.Run(optest.Config{Ports: 1, New: func() pipeline.Operator { return join.NewLookup(c) }},
		[]optest.Record{{Time: 7, Slots: []pipeline.Value{key}}})
	switch {
	case err != nil:
		t.Fatal(err)
	case len(result.Dead) == 1:
		return v, "dead: " + result.Dead[0].Reason
	case result.Counters.Dropped == 1:
		return v, "dropped"
	case result.Ports[0][0].Time != 7 || result.Ports[0][0].Slots[0] != key:
		t.Errorf("the row became %+v", result.Ports[0][0])
	}
	return result.Ports[0][0].Slots[1], ""
}

func TestLookupCompares(t *testing.T) {
	const (
		csv  = "id,name\n7,seven\n007,bond\n1.5,half\ntrue,yes\n18446744073709551615,most\n,\"\"\n"
		json = `[{"id": 7, "name": "seven"}, {"id": "7", "name": "text"}, {"id": 1.5, "name": "half"}, {"id": true, "name": "yes"}, {"id": 18446744073709551615, "name": "most"}]`
	)
	for _, c := range []struct {
		file, text string
		key        pipeline.Value
		want       string
	}{
		{"d.csv", csv, pipeline.StringValue("7"), "seven"}, {"d.csv", csv, pipeline.IntValue(7), "seven"}, {"d.csv", csv, pipeline.FloatValue(7), "seven"},
		{"d.csv", csv, pipeline.StringValue("007"), "bond"}, {"d.csv", csv, pipeline.FloatValue(1.5), "half"}, {"d.csv", csv, pipeline.BoolValue(true), "yes"},
		{"d.csv", csv, pipeline.UintValue(math.MaxUint64), "most"}, {"d.csv", csv, pipeline.Value{}, ""}, {"d.csv", csv, pipeline.StringValue("7.0"), ""},
		{"d.json", json, pipeline.IntValue(7), "seven"}, {"d.json", json, pipeline.FloatValue(7), "seven"}, {"d.json", json, pipeline.StringValue("7"), "text"},
		{"d.json", json, pipeline.BoolValue(true), "yes"}, {"d.json", json, pipeline.UintValue(math.MaxUint64), "most"}, {"d.json", json, pipeline.StringValue("true"), ""},
	} {
		text := c.text
		if c.file == "d.csv" {
			text = strings.ReplaceAll(text, ",\"\"\n", "") // a row without key is refused: see the tests of the config
		}
		if got, _ := find(t, table(t, c.file, text, "id"), join.MissingNull, c.key); got.Str != c.want {
			t.Errorf("%s, key %v: got %q, want %q", c.file, c.key, got.Str, c.want)
		}
	}
}

func TestLookupMisses(t *testing.T) {
	d := table(t, "d.csv", "id,name\n7,seven\n", "id")
	for missing, want := range map[join.Missing]string{join.MissingNull: "", join.MissingDrop: "dropped", join.MissingDead: "dead: lookup"} {
		if v, got := find(t, d, missing, pipeline.IntValue(8)); got != want || !v.IsNull() {
			t.Errorf("missing %d: %v, %q, want %q", missing, v, got, want)
		}
	}
}

func TestColumnsHaveKinds(t *testing.T) {
	csv := table(t, "d.csv", "\xEF\xBB\xBFid,n,f,b,code,empty,mixed\na,1,1.5,true,007,,1\nb,18446744073709551615,-2,false,12,,x\nc,,,,,,\n", "id")
	if got, want := kinds(csv), "string int float bool string null string"; got != want {
		t.Errorf("kinds of CSV %s, want %s", got, want)
	}
	json := table(t, "d.json", `[{"id": "a", "n": 1, "f": 1.5, "mixed": 1, "o": {"x": [1]}}, {"n": 18446744073709551615, "id": "b", "mixed": "x", "b": true, "f": null}]`, "id")
	if got, want := kinds(json), "string int float null json bool"; got != want {
		t.Errorf("kinds of JSON %s, want %s", got, want)
	}
}

func kinds(t *join.Table) string {
	var names []string
	for _, k := range t.Kinds {
		names = append(names, k.String())
	}
	return strings.Join(names, " ")
}

// TestTablesAreBounded: a small file may not claim much memory.
func TestTablesAreBounded(t *testing.T) {
	wide, long := strings.Repeat("a,", 1000), "[{\"id\": 1, \"b\": 2}"+strings.Repeat(",{}", 1<<19)+"]"
	for name, text := range map[string]string{"d.csv": wide, "d.json": long} {
		if _, err := join.Parse(name, []byte(text)); !errors.Is(err, join.ErrTable) || !strings.Contains(err.Error(), "allowed are") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzTable: every file is read or refused with a place inside of it, whatever it holds.
func FuzzTable(f *testing.F) {
	for _, s := range []string{"id,name\n1,a\n", "id,name\r\n\"1\",\"a\"\"b\"\r\n", `[{"id": 1}, {"id": "a", "x": [1, {}]}]`, "[", "", "\"", "a,a\n", `[{"a": 1e999}]`} {
		f.Add(s, true)
		f.Add(s, false)
	}
	f.Fuzz(func(t *testing.T, text string, csv bool) {
		name := "d.json"
		if csv {
			name = "d.csv"
		}
		table, err := join.Parse(name, []byte(text))
		if err == nil && len(table.Columns) > 0 {
			err = table.By([]int{0})
		}
		var place *join.TableError
		switch {
		case err == nil:
		case !errors.Is(err, join.ErrTable) || !errors.As(err, &place):
			t.Fatalf("refused with %v", err)
		case place.Line < 1 || place.Line > strings.Count(text, "\n")+strings.Count(text, "\r")+1 || place.Column < 1:
			t.Fatalf("refused at line %d, column %d: %v", place.Line, place.Column, err)
		}
	})
}
