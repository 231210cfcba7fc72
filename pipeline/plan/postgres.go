package plan

import (
	"slices"
	"strings"
	"unicode"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/suggest"
)

// PostgresTarget writes rows into a table.
type PostgresTarget struct {
	Pos          Pos
	DSNFile      string
	Schema       Text
	Table        Text
	Create       bool
	Upsert       []Text
	Columns      []ColumnSpec // column of the table, field of the rows or $seq …; empty: the rows' columns under their own names
	Timestamps   []Text       // columns of integer milliseconds that become timestamptz
	BatchRecords int
	BatchBytes   int64
	TimeoutNs    int64
}

// TableColumn is a column of a table and what goes into it.
type TableColumn struct {
	Name      string
	From      string // field of the rows, or one of tableExtras
	Kind      pipeline.Kind
	Timestamp bool
}

// tableExtras are what a column can hold besides a field, with their kinds.
var tableExtras = map[string]pipeline.Kind{"$stream": pipeline.String, "$gateway": pipeline.String, "$generation": pipeline.Int, "$seq": pipeline.Int,
	"$time": pipeline.Int, "$row": pipeline.JSON}

var tableExtraNames = []string{"$generation", "$gateway", "$row", "$seq", "$stream", "$time"}

// columnBytesMax is PostgreSQL's limit: it cuts longer names silently.
const columnBytesMax = 63

// columnKind is the kind of what a column, tag or field takes from the rows, or from tableExtras; Null: not known before the rows come. It is a
// problem when the rows cannot have it.
func (c *compiler) columnKind(s *SinkSpec, spec ColumnSpec, cols []Column, whole int) (kind pipeline.Kind, ok bool) {
	from := spec.Expr.Value
	if kind, extra := tableExtras[from]; extra {
		return kind, true
	}
	if i := slices.IndexFunc(cols, func(o Column) bool { return o.Name == from }); i >= 0 {
		return cols[i].Kind, true
	}
	if whole >= 0 && !strings.HasPrefix(from, "$") {
		return pipeline.Null, true
	}
	names := slices.Clone(tableExtraNames)
	for _, o := range cols {
		names = append(names, o.Name)
	}
	c.problems.Add(spec.Expr.Pos, suggest.Nearest(from, names), "a column of the rows ("+strings.Join(names, ", ")+")",
		"sink %s: the rows have no %q", s.UID, from)
	return pipeline.Null, false
}

// tableColumns says what goes into which column, and checks that the rows have it.
func (c *compiler) tableColumns(s *SinkSpec, cols []Column, whole int) (out []TableColumn) {
	t := s.Postgres
	if len(t.Columns) == 0 {
		if whole >= 0 {
			c.problems.Add(t.Pos, "", "list them in columns, such as {doc: $row}, or put a select step before the sink",
				"sink %s: the columns of its rows are not all known", s.UID)
			return nil
		}
		for _, col := range cols {
			out = append(out, TableColumn{Name: col.Name, From: col.Name, Kind: col.Kind})
		}
	}
	for _, spec := range t.Columns {
		col := TableColumn{Name: spec.Name.Value, From: spec.Expr.Value}
		var known bool
		if col.Kind, known = c.columnKind(s, spec, cols, whole); known {
			out = append(out, col)
		}
	}
	c.tableNames(s, out)
	return out
}

// tableNames checks the names of columns, upsert and timestamps, and marks what becomes a timestamp.
func (c *compiler) tableNames(s *SinkSpec, out []TableColumn) {
	t := s.Postgres
	var names []string
	perRow := false
	for _, col := range out {
		names = append(names, col.Name)
		perRow = perRow || col.From != "$stream" && col.From != "$gateway" && col.From != "$generation"
		if col.Name == "" || len(col.Name) > columnBytesMax || strings.ContainsFunc(col.Name, unicode.IsControl) {
			c.problems.Add(t.Pos, "", "1 to 63 bytes, without control characters", "sink %s: the column name %q is no name in PostgreSQL", s.UID, col.Name)
		}
		if t.Create && col.Kind == pipeline.Null {
			c.warnings.Add(t.Pos, "", "declare it in fields, or cast it", "sink %s: the type of %s is not known, so the column would be made as jsonb", s.UID, col.From)
		}
	}
	if !perRow && len(out) > 0 {
		c.problems.Add(t.Pos, "", "a column with a field of the rows", "sink %s: no column holds anything of a row", s.UID)
	}
	for _, k := range t.Upsert {
		if !slices.Contains(names, k.Value) {
			c.problems.Add(k.Pos, suggest.Nearest(k.Value, names), "", "sink %s: upsert names %q, which is none of its columns", s.UID, k.Value)
		}
	}
	for _, k := range t.Timestamps {
		i := slices.Index(names, k.Value)
		switch {
		case i < 0:
			c.problems.Add(k.Pos, suggest.Nearest(k.Value, names), "", "sink %s: timestamps names %q, which is none of its columns", s.UID, k.Value)
		case out[i].Kind != pipeline.Int && out[i].Kind != pipeline.Null:
			c.problems.Add(k.Pos, "", "integer milliseconds", "sink %s: %q is no integer, so it cannot become a timestamp", s.UID, k.Value)
		default:
			out[i].Timestamp = true
		}
	}
}
