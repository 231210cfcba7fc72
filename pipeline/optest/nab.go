package optest

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

// The slots of the rows that Arrivals makes.
const (
	SlotKey   = 0 // the series: "387/traveltime" of road/387/traveltime, "machine_temp" of plant/a/machine_temp
	SlotValue = 1
	SlotSeq   = 2
	SlotTopic = 3
	Width     = 4
)

// dataDir is tests/testdata as seen from pipeline/ops and pipeline/window.
const dataDir = "../../tests/testdata"

// Arrivals reads the recorded deliveries of a data set with known answers, in the order of arrival.
func Arrivals(t testing.TB, set string) []Record {
	t.Helper()
	f, err := os.Open(filepath.Join(dataDir, set, "arrivals.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var records []Record
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var d struct {
			AtMs    int64 `json:"at_ms"`
			Topic   string
			Payload string
		}
		var p struct {
			Seq, Ts int64
			V       json.Number
		}
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(d.Payload), &p); err != nil {
			t.Fatal(err)
		}
		levels := strings.SplitN(d.Topic, "/", 3)
		key := levels[2]
		if levels[0] == "road" {
			key = levels[1] + "/" + levels[2]
		}
		records = append(records, Record{Elapsed: d.AtMs * 1e6, Time: p.Ts, Slots: []pipeline.Value{
			pipeline.StringValue(key), number(t, p.V.String()), pipeline.IntValue(p.Seq), pipeline.StringValue(d.Topic),
		}})
	}
	return records
}

func number(t testing.TB, text string) pipeline.Value {
	t.Helper()
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return pipeline.IntValue(i)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return pipeline.FloatValue(f)
}

// Expected reads a known answer without its header.
func Expected(t testing.TB, set, name string) [][]string {
	t.Helper()
	f, err := os.Open(filepath.Join(dataDir, set, "expected", name+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return rows[1:]
}

// Same compares a value with the text of a known answer: text and integers exactly, floats within a relative tolerance.
func Same(v pipeline.Value, text string, tolerance float64) bool {
	got, ok := v.AsFloat()
	if !ok {
		return v.Str == text
	}
	want, err := strconv.ParseFloat(text, 64)
	return err == nil && math.Abs(got-want) <= tolerance*math.Abs(want)
}

// Through gives the records that the rows of a result came from, for a next operator: rows keep their position, hence
// their place among the records.
func Through(rows []pipeline.Row, from []Record) []Record {
	var records []Record
	for _, r := range rows {
		records = append(records, Record{Elapsed: from[r.Pos-1].Elapsed, Time: r.Time, Slots: r.Slots})
	}
	return records
}
