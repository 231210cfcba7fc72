package plan

import (
	"slices"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/suggest"
)

// InfluxTarget writes results as points.
type InfluxTarget struct {
	Pos          Pos
	URL          Text
	Org, Bucket  Text
	Measurement  Text
	Tags         []ColumnSpec // key, and a column of the rows or one of tableExtras
	Fields       []ColumnSpec // none: every column that is neither tag nor time
	Time         Text         // column of integers, or $time
	TimeUnit     string       // ms, s, us, ns
	Distinct     bool
	Unsigned     bool
	Gzip         bool
	TokenFile    string
	BatchRecords int
	BatchBytes   int64
	TimeoutNs    int64
	Certificates
}

func (t *InfluxTarget) text() string {
	return "influx bucket " + Printable(t.Bucket.Value) + " at " + Printable(t.URL.Value)
}

// PointColumn is a tag or field of a point and what goes into it.
type PointColumn struct {
	Name string
	From string // a column of the rows, or one of tableExtras
	Kind pipeline.Kind
	Tag  bool
}

// pointColumns says what goes into which tag and field, and checks that the rows have it.
func (c *compiler) pointColumns(s *SinkSpec, in target, timed bool, cols []Column, whole int) (out []PointColumn) {
	t := s.Influx
	find := func(spec ColumnSpec, tag bool) {
		col := PointColumn{Name: spec.Name.Value, From: spec.Expr.Value, Tag: tag}
		var known bool
		if col.Kind, known = c.columnKind(s, spec, cols, whole); known {
			out = append(out, col)
		}
	}
	for _, spec := range t.Tags {
		find(spec, true)
	}
	for _, spec := range t.Fields {
		find(spec, false)
	}
	c.pointTime(s, timed, cols, whole)
	if len(t.Fields) == 0 {
		out = append(out, c.remainingFields(s, cols, whole)...)
	}
	for _, col := range out {
		if !col.Tag && col.Kind == pipeline.Null {
			c.warnings.Add(t.Pos, "", "declare it in fields, or cast it", "sink %s: the type of %s is not known: its numbers are written as floats", s.UID, col.From)
		}
	}
	c.distinguishes(s, in, out)
	return out
}

// remainingFields are the columns that are neither tag nor time, under their own names.
func (c *compiler) remainingFields(s *SinkSpec, cols []Column, whole int) (out []PointColumn) {
	t := s.Influx
	if whole >= 0 {
		c.problems.Add(t.Pos, "", "list them in fields, such as {value: value}, or put a select step before the sink", "sink %s: the columns of its rows are not all known", s.UID)
		return nil
	}
	for _, col := range cols {
		if col.Name != t.Time.Value && !slices.ContainsFunc(t.Tags, func(tag ColumnSpec) bool { return tag.Expr.Value == col.Name }) {
			out = append(out, PointColumn{Name: col.Name, From: col.Name, Kind: col.Kind})
		}
	}
	if len(out) == 0 {
		c.problems.Add(t.Pos, "", "a column that is neither tag nor time", "sink %s: no field is left", s.UID)
	}
	return out
}

func (c *compiler) pointTime(s *SinkSpec, timed bool, cols []Column, whole int) {
	at := s.Influx.Time
	if at.Value == "" || at.Value == "$time" {
		if !timed {
			c.problems.Add(s.Influx.Pos, "", "give the source a time, or name a column in time", "sink %s: its rows have no event time", s.UID)
		}
		return
	}
	var names []string
	for _, o := range cols {
		if o.Name == at.Value {
			if o.Kind != pipeline.Int && o.Kind != pipeline.Uint && o.Kind != pipeline.Null {
				c.problems.Add(at.Pos, "", "a column of whole numbers, or $time", "sink %s: %q is no whole number, so it cannot be the time", s.UID, at.Value)
			}
			return
		}
		names = append(names, o.Name)
	}
	if whole < 0 {
		c.problems.Add(at.Pos, suggest.Nearest(at.Value, append(names, "$time")), "a column of whole numbers, or $time", "sink %s: the rows have no %q", s.UID, at.Value)
	}
}

// distinguishes warns where two results are one point: a key of the rows that is no tag, several rows of one key and time.
func (c *compiler) distinguishes(s *SinkSpec, in target, out []PointColumn) {
	if s.Influx.Distinct || slices.ContainsFunc(out, func(col PointColumn) bool { return col.Tag && col.From == "$seq" }) {
		return
	}
	keys, why := c.identity(in)
	var lost []string
	for _, key := range keys {
		if !slices.ContainsFunc(out, func(col PointColumn) bool { return col.Tag && col.From == key }) && !slices.Contains(lost, key) {
			lost = append(lost, key)
		}
	}
	if len(lost) > 0 {
		c.warnings.Add(s.Influx.Pos, "", "make them tags, or set distinct: true", "sink %s: results that differ in %s alone have one series and time: the later overwrites the earlier",
			s.UID, strings.Join(lost, ", "))
	}
	if why != "" {
		c.warnings.Add(s.Influx.Pos, "", "set distinct: true to keep them all", "sink %s: %s: the later overwrites the earlier", s.UID, why)
	}
}

// identity gives the columns that tell rows of one time apart, as far as the steps before say, and why even these do not.
func (c *compiler) identity(t target) (keys []string, why string) {
	if t.step < 0 {
		if t.source >= 0 {
			_, captures, err := ParseTopic(c.spec.Sources[t.source].Topic.Value)
			for i := range captures {
				if err == nil {
					keys = append(keys, captures[i].Name)
				}
			}
		}
		return keys, ""
	}
	s := c.spec.Steps[t.step]
	if s.Window != nil {
		for _, by := range s.By {
			keys = append(keys, by.Value)
		}
		switch {
		case s.Top != nil:
			why = "step " + s.UID.Value + " gives several rows of one key and window"
		case s.Window.EarlyMs > 0:
			why = "the early panes of step " + s.UID.Value + " may have the time of the last one"
		}
		return keys, why
	}
	for _, in := range c.stepInputs[t.step] {
		k, w := c.identity(in)
		keys = append(keys, k...)
		if why == "" {
			why = w
		}
	}
	if s.Select != nil {
		for i, key := range keys {
			for _, col := range s.Select.Columns {
				if col.Expr.Value == key {
					keys[i] = col.Name.Value
				}
			}
		}
	}
	return keys, why
}
