package postgres

import (
	"fmt"
	"slices"
	"strings"
)

// Tables of weir's own, in the schema of the sink's table (FORMAT.md).
const (
	progressTable = "weir_progress"
	gapsTable     = "weir_gaps"
)

// statementName is the prepared statement of a connection.
const statementName = "weir_batch"

// ident quotes an identifier.
func ident(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

func qualified(schema, name string) string { return ident(schema) + "." + ident(name) }

const rowColumns = "version, opened, generation, incarnation_major, incarnation_minor, seq, board, chain"

func readSQL(schema string) string {
	return "SELECT " + rowColumns + " FROM " + qualified(schema, progressTable) + " WHERE stream = $1"
}

// openSQL writes the incarnation where it is not fenced, and gives the row; no row: fenced. The row's lock orders it against a
// batch under way on a connection that was given up.
func openSQL(schema string) string {
	return "INSERT INTO " + qualified(schema, progressTable) + ` AS p (stream, version, opened, generation, incarnation_major, incarnation_minor, board, seq, chain)
VALUES ($1, 1, $2, 0, $3, $4, $5, 0, '0000000000000000')
ON CONFLICT (stream) DO UPDATE SET opened = EXCLUDED.opened, incarnation_major = EXCLUDED.incarnation_major,
 incarnation_minor = EXCLUDED.incarnation_minor, board = EXCLUDED.board, changed = now()
WHERE p.version = 1 AND p.opened <= EXCLUDED.opened AND
 ((p.incarnation_major, p.incarnation_minor) < (EXCLUDED.incarnation_major, EXCLUDED.incarnation_minor) OR
  (p.incarnation_major, p.incarnation_minor, p.board) = (EXCLUDED.incarnation_major, EXCLUDED.incarnation_minor, EXCLUDED.board))
RETURNING ` + rowColumns
}

// fixedParams are those before the columns' arrays: stream, generation, last, chain, incarnation, board, and where the row was
// last seen.
const fixedParams = 9

// batchSQL is the statement that writes a batch: the progress row moves if it is where it was last seen, and only then, for the
// CTEs join with what moved, the rows and gaps are written.
func batchSQL(c *Config, columns []tableColumn, f faults) string {
	var b strings.Builder
	where := "stream = $1 AND opened = $2 AND incarnation_major = $5 AND incarnation_minor = $6 AND board = $7 AND generation = $8 AND seq = $9"
	if f.noFence {
		where = "stream = $1 AND $2 + $5 + $6 + $8 + $9 >= 0 AND $7 IS NOT NULL"
	}
	fmt.Fprintf(&b, "WITH p AS (UPDATE %s SET generation = $2, seq = $3, chain = $4, changed = now() WHERE %s RETURNING 1),\n",
		qualified(c.Schema, progressTable), where)
	var names, plain, named, fields, arrays []string
	for i := range columns {
		if columns[i].array {
			arrays = append(arrays, fmt.Sprintf("$%d::text[]", fixedParams+1+len(arrays)))
			fields = append(fields, fmt.Sprintf("c%d", len(arrays)))
		}
		name, value := ident(columns[i].Name), columns[i].expression(len(arrays))
		names, plain, named = append(names, name), append(plain, value), append(named, value+" AS "+name)
	}
	list := strings.Join(names, ", ")
	from := fmt.Sprintf("FROM p, unnest(%s) WITH ORDINALITY AS u(%s, ord)", strings.Join(arrays, ", "), strings.Join(fields, ", "))
	fmt.Fprintf(&b, "r AS (INSERT INTO %s (%s)\n", qualified(c.Schema, c.Table), list)
	if len(c.Upsert) == 0 {
		fmt.Fprintf(&b, "SELECT %s %s),\n", strings.Join(plain, ", "), from)
	} else { // the last of a batch wins: one statement cannot change a row twice
		keys := quoted(c.Upsert)
		fmt.Fprintf(&b, "SELECT DISTINCT ON (%s) %s FROM (SELECT %s, u.ord AS \"$ord\" %s) AS s ORDER BY %s, \"$ord\" DESC\nON CONFLICT (%s) %s),\n",
			keys, list, strings.Join(named, ", "), from, keys, keys, onConflict(c, columns))
	}
	gaps := fixedParams + len(arrays) + 1
	fmt.Fprintf(&b, "g AS (INSERT INTO %s (stream, generation, first_seq, last_seq, reason)\n"+
		"SELECT $1, $2, u.f, u.l, u.r FROM p, unnest($%d::bigint[], $%d::bigint[], $%d::text[]) AS u(f, l, r) ON CONFLICT DO NOTHING)\nSELECT count(*) FROM p",
		qualified(c.Schema, gapsTable), gaps, gaps+1, gaps+2)
	return b.String()
}

func quoted(names []string) string {
	q := make([]string, len(names))
	for i, n := range names {
		q[i] = ident(n)
	}
	return strings.Join(q, ", ")
}

func onConflict(c *Config, columns []tableColumn) string {
	var sets []string
	for i := range columns {
		if n := columns[i].Name; !slices.Contains(c.Upsert, n) {
			sets = append(sets, ident(n)+" = EXCLUDED."+ident(n))
		}
	}
	if len(sets) == 0 {
		return "DO NOTHING"
	}
	return "DO UPDATE SET " + strings.Join(sets, ", ")
}

// createSQL makes what may be missing.
func createSQL(c *Config) map[string]string {
	cols := make([]string, len(c.Columns))
	for i := range c.Columns {
		cols[i] = ident(c.Columns[i].Name) + " " + createType(&c.Columns[i])
	}
	if len(c.Upsert) > 0 {
		cols = append(cols, "PRIMARY KEY ("+quoted(c.Upsert)+")")
	}
	return map[string]string{
		progressTable: "CREATE TABLE IF NOT EXISTS " + qualified(c.Schema, progressTable) + ` (stream text PRIMARY KEY, version smallint NOT NULL, opened bigint NOT NULL,
 generation bigint NOT NULL, incarnation_major bigint NOT NULL, incarnation_minor bigint NOT NULL, board text NOT NULL, seq bigint NOT NULL, chain text NOT NULL,
 changed timestamptz NOT NULL DEFAULT now())`,
		gapsTable: "CREATE TABLE IF NOT EXISTS " + qualified(c.Schema, gapsTable) + ` (stream text NOT NULL, generation bigint NOT NULL, first_seq bigint NOT NULL,
 last_seq bigint NOT NULL, reason text NOT NULL, PRIMARY KEY (stream, generation, first_seq))`,
		c.Table: "CREATE TABLE IF NOT EXISTS " + qualified(c.Schema, c.Table) + " (" + strings.Join(cols, ", ") + ")",
	}
}
