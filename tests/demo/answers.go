package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// result is a record of a sink, or one that is expected: what it is called and what it says.
type result struct {
	id     string
	pass   int64
	order  int       // place among the expected ones of its stream; -1 when it has none
	values []float64 // nil: an expected one whose contents the known answers do not tell
}

// tolerance of float sums and averages: the references sum in another order.
const tolerance = 1e-9

func (r *result) equal(o *result) bool {
	if r.values == nil || o.values == nil {
		return true
	}
	return slices.EqualFunc(r.values, o.values, func(a, b float64) bool { return math.Abs(a-b) <= tolerance*max(1, math.Abs(b)) })
}

// answer is what a stream must hold of one pass.
type answer struct {
	source string // where the answer comes from
	want   map[string]*result
}

func newAnswer(source string, list []*result) *answer {
	a := &answer{source: source, want: make(map[string]*result, len(list))}
	for _, r := range list {
		a.want[r.id] = r
	}
	return a
}

// answers are the known answers of every stream. Those of changes depend on the pass before.
type answers struct {
	windows, refined, late, jams *answer
	changes                      func(pass int64) *answer
}

func loadAnswers(o *options, r *recording) (a *answers, err error) {
	a = &answers{}
	if a.windows, err = windowAnswer(o.data, "late_15m_D10m_L0_windows.csv", false); err != nil {
		return nil, err
	}
	if a.refined, err = windowAnswer(o.data, "late_15m_D10m_L30m_windows.csv", true); err != nil {
		return nil, err
	}
	if a.late, err = lateAnswer(o.data, "late_15m_D10m_L0_dropped.csv"); err != nil {
		return nil, err
	}
	first, err := changesAnswer(o.data, "deadband_0.5_arrival_order.csv")
	if err != nil {
		return nil, err
	}
	band := deadband{last: map[string]float64{}}
	if made := band.pass(r.accepted); !sameOrder(made, first) {
		return nil, fmt.Errorf("the demo's own deadband differs from %s", first.source)
	}
	a.changes = func(pass int64) *answer {
		if pass == 0 {
			return first
		}
		return newAnswer("a plain loop, as "+first.source, band.pass(r.accepted))
	}
	return a, nil
}

// windowAnswer: emissions says how often a window came out; all firings but the last are expected with contents unknown.
func windowAnswer(dir, name string, refined bool) (*answer, error) {
	rows, err := loadCSV(dir, name)
	if err != nil {
		return nil, err
	}
	n := numbers{}
	var list []*result
	for _, row := range rows {
		start, end, last := n.int(row["window_start_ms"]), n.int(row["window_end_ms"]), n.int(row["emissions"])-1
		for revision := range last {
			list = append(list, &result{id: windowID(start, row["key"], revision), order: -1})
		}
		r := &result{id: windowID(start, row["key"], last), order: int(end / windowMs)}
		if refined {
			r.order, r.values = -1, n.floats(row["count"], row["avg"])
		} else {
			r.values = n.floats(row["count"], row["min"], row["max"], row["sum"], row["avg"])
		}
		list = append(list, r)
	}
	return newAnswer(name, list), n.err
}

func lateAnswer(dir, name string) (*answer, error) {
	rows, err := loadCSV(dir, name)
	if err != nil {
		return nil, err
	}
	n := numbers{}
	var list []*result
	for i, row := range rows {
		ts := n.int(row["ts_ms"])
		list = append(list, &result{id: readingID(row["key"], ts), order: i, values: n.floats(row["v"])})
	}
	return newAnswer(name, list), n.err
}

func changesAnswer(dir, name string) (*answer, error) { return lateAnswer(dir, name) } // the same columns

// deadband is the plain loop behind the known answer, for the passes after the first: the last value passed is carried on.
type deadband struct{ last map[string]float64 }

func (d *deadband) pass(accepted []reading) (list []*result) {
	for i := range accepted {
		r := &accepted[i]
		if last, known := d.last[r.key()]; known && math.Abs(r.V-last) <= 0.5 {
			continue
		}
		d.last[r.key()] = r.V
		list = append(list, &result{id: readingID(r.key(), r.TS), order: len(list), values: []float64{r.V}})
	}
	return list
}

func sameOrder(list []*result, a *answer) bool {
	if len(list) != len(a.want) {
		return false
	}
	for _, r := range list {
		if w := a.want[r.id]; w == nil || w.order != r.order || !w.equal(r) {
			return false
		}
	}
	return true
}

// jamsAnswer is what `weir replay` makes of the recording in one go.
func jamsAnswer(lines string, rec *recording) (*answer, error) {
	var list []*result
	for line := range strings.Lines(lines) {
		r, err := parseJam([]byte(line), rec)
		if err != nil {
			return nil, err
		}
		r.order = len(list)
		list = append(list, r)
	}
	return newAnswer("weir replay, uninterrupted", list), nil
}

func windowID(start int64, key string, revision int64) string {
	return fmt.Sprintf("%s window %d revision %d", key, start, revision)
}

func readingID(key string, ts int64) string { return fmt.Sprintf("%s at %d", key, ts) }

// parseWindow reads a record of a windowed sink.
func parseWindow(data []byte, r *recording) (*result, error) {
	var w struct {
		Start    int64 `json:"window_start"`
		Sensor   string
		Metric   string
		Revision int64
		N        float64
		Min, Max *float64
		Sum, Avg *float64
	}
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, fmt.Errorf("read window: %w", err)
	}
	pass, start := r.unshift(w.Start)
	got := &result{id: windowID(start, w.Sensor+"/"+w.Metric, w.Revision), pass: pass, values: []float64{w.N}}
	for _, v := range []*float64{w.Min, w.Max, w.Sum, w.Avg} {
		if v != nil {
			got.values = append(got.values, *v)
		}
	}
	return got, nil
}

// parseReading reads a record of a sink that passes readings on; the message that closes the windows is no result.
func parseReading(data []byte, r *recording) (*result, error) {
	var v reading
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, fmt.Errorf("read reading: %w", err)
	}
	if v.Sensor == closingSensor {
		return nil, nil
	}
	pass, ts := r.unshift(v.TS)
	return &result{id: readingID(v.key(), ts), pass: pass, values: []float64{v.V}}, nil
}

// parseJam reads a transition of the alarm.
func parseJam(data []byte, r *recording) (*result, error) {
	var j struct {
		Sensor, Transition string
		Value              float64
		Time               int64
	}
	if err := json.Unmarshal(data, &j); err != nil {
		return nil, fmt.Errorf("read alarm: %w", err)
	}
	pass, ts := r.unshift(j.Time)
	return &result{id: readingID(j.Sensor+" "+j.Transition, ts), pass: pass, values: []float64{j.Value}}, nil
}

// numbers parses and keeps the first error.
type numbers struct{ err error }

func (n *numbers) int(s string) int64 {
	v, err := strconv.ParseInt(s, 10, 64)
	n.err = cmp.Or(n.err, err)
	return v
}

func (n *numbers) floats(texts ...string) (list []float64) {
	for _, s := range texts {
		v, err := strconv.ParseFloat(s, 64)
		n.err = cmp.Or(n.err, err)
		list = append(list, v)
	}
	return list
}
