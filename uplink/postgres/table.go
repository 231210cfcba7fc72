package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
)

// tableColumn is a column of the plan with the column of the table that takes it.
type tableColumn struct {
	Column
	typeName string // quoted base type
	form     form
	bits     int
	array    bool // a value per row; else of the stream
	values   array
}

// expression is what the statement selects for the column; n is its array's number.
func (c *tableColumn) expression(n int) string {
	switch c.From {
	case FromStream:
		return c.cast("$1::text")
	case FromGateway:
		return c.cast("split_part($1::text, '/', 1)")
	case FromGeneration:
		return c.cast("$2::bigint")
	}
	return c.cast(fmt.Sprintf("u.c%d", n))
}

// table is what is known of the sink's table on one connection, and the batch under way.
type table struct {
	columns []tableColumn
	byField map[string][]int // columns of a field
	perRow  []int            // columns that hold something of the result, no field
	formats []int16
	set     []bool
	text    [][]byte
	null    []bool

	gapFirst, gapLast, gapReason array
}

// prepare makes what is missing where that is allowed, checks the table against the plan and prepares the statement.
func (s *Sink) prepare(ctx context.Context) (*table, error) {
	if err := s.create(ctx); err != nil {
		return nil, err
	}
	for _, own := range []string{progressTable, gapsTable} {
		if err := s.allowed(ctx, own, "INSERT", "SELECT", "UPDATE"); err != nil {
			return nil, err
		}
	}
	rights := []string{"INSERT"}
	if len(s.config.Upsert) > 0 {
		rights = append(rights, "SELECT", "UPDATE")
	}
	if err := s.allowed(ctx, s.config.Table, rights...); err != nil {
		return nil, err
	}
	found, err := s.columns(ctx)
	if err != nil {
		return nil, err
	}
	t, problems := match(&s.config, found)
	if len(s.config.Upsert) > 0 && len(problems) == 0 {
		if err := s.uniqueKey(ctx); err != nil {
			return nil, err
		}
	}
	if len(problems) > 0 {
		return nil, fmt.Errorf("table %s.%s does not fit: %s", s.config.Schema, s.config.Table, strings.Join(problems, "; "))
	}
	oids := []uint32{oidText, oidInt8, oidInt8, oidText, oidInt8, oidInt8, oidText, oidInt8, oidInt8}
	t.formats = make([]int16, fixedParams)
	for i := range t.columns {
		if t.columns[i].array {
			oids, t.formats = append(oids, oidTextArray), append(t.formats, 1)
		}
	}
	oids, t.formats = append(oids, oidInt8Array, oidInt8Array, oidTextArray), append(t.formats, 1, 1, 1)
	if _, err := s.conn.Prepare(ctx, statementName, batchSQL(&s.config, t.columns, s.fault), oids); err != nil {
		return nil, fmt.Errorf("prepare statement: %w", err)
	}
	return t, nil
}

// create makes what is missing. An object that is there is left as it is.
func (s *Sink) create(ctx context.Context) error {
	if !s.config.Create {
		return nil
	}
	all := createSQL(&s.config)
	for _, name := range []string{progressTable, gapsTable, s.config.Table} {
		rows, err := s.query(ctx, "SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2",
			s.config.Schema, name)
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			continue
		}
		if _, err := s.query(ctx, all[name]); err != nil {
			return fmt.Errorf("create table %s.%s: %w", s.config.Schema, name, err)
		}
	}
	return nil
}

// allowed checks that a table is there and that the user may write it.
func (s *Sink) allowed(ctx context.Context, name string, rights ...string) error {
	rows, err := s.query(ctx, `SELECT c.relkind, array_to_string(ARRAY(SELECT r FROM unnest(string_to_array($3, ',')) r WHERE NOT has_table_privilege(c.oid, r)), ', '), current_user
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2`, s.config.Schema, name, strings.Join(rights, ","))
	switch {
	case err != nil:
		return err
	case len(rows) == 0 && (name == progressTable || name == gapsTable):
		return fmt.Errorf("table %s.%s is missing: set create: true, or make it with %s", s.config.Schema, name, createSQL(&s.config)[name])
	case len(rows) == 0:
		return fmt.Errorf("table %s.%s is missing: make it, or set create: true", s.config.Schema, name)
	}
	if kind := string(rows[0][0]); kind != "r" && kind != "p" {
		return fmt.Errorf("%s.%s is no table (relkind %s)", s.config.Schema, name, kind)
	}
	if lacks := string(rows[0][1]); lacks != "" {
		return fmt.Errorf("user %s may not %s table %s.%s: GRANT it", rows[0][2], lacks, s.config.Schema, name)
	}
	return nil
}

// foundColumn is a column as the server has it.
type foundColumn struct {
	name, base, schema, category, shown string
	needed, generated                   bool
}

func (s *Sink) columns(ctx context.Context) (list []foundColumn, err error) {
	rows, err := s.query(ctx, `SELECT a.attname, b.typname, bn.nspname, b.typcategory, format_type(a.atttypid, a.atttypmod),
 a.attnotnull AND NOT a.atthasdef AND a.attidentity = '', a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid JOIN pg_catalog.pg_type b ON b.oid = COALESCE(NULLIF(t.typbasetype, 0), t.oid)
JOIN pg_catalog.pg_namespace bn ON bn.oid = b.typnamespace
WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`, s.config.Schema, s.config.Table)
	for _, r := range rows {
		list = append(list, foundColumn{name: string(r[0]), base: string(r[1]), schema: string(r[2]), category: string(r[3]), shown: string(r[4]),
			needed: string(r[5]) == "t", generated: string(r[6]) == "t"})
	}
	return list, err
}

// match finds the table's column for each of the plan, and says what does not fit.
func match(c *Config, found []foundColumn) (t *table, problems []string) {
	t = &table{columns: make([]tableColumn, len(c.Columns)), byField: map[string][]int{}, text: make([][]byte, len(c.Columns)),
		null: make([]bool, len(c.Columns)), set: make([]bool, len(c.Columns))}
	for i, col := range c.Columns {
		j := slices.IndexFunc(found, func(f foundColumn) bool { return f.name == col.Name })
		if j < 0 {
			problems = append(problems, fmt.Sprintf("column %s is missing: ALTER TABLE %s ADD COLUMN %s %s", col.Name, qualified(c.Schema, c.Table), ident(col.Name), createType(&col)))
			continue
		}
		f := found[j]
		if f.generated {
			problems = append(problems, fmt.Sprintf("column %s is generated by the server", col.Name))
			continue
		}
		form, bits, problem := formOf(&col, f.base, f.category)
		if problem != "" {
			problems = append(problems, fmt.Sprintf("column %s is %s (%s); it is to be %s", col.Name, f.shown, problem, wanted(&col)))
			continue
		}
		tc := tableColumn{Column: col, typeName: qualified(f.schema, f.base), form: form, bits: bits}
		switch col.From {
		case FromStream, FromGateway, FromGeneration:
		case FromSeq, FromTime, FromRow:
			tc.array = true
			t.perRow = append(t.perRow, i)
		default:
			tc.array = true
			t.byField[col.From] = append(t.byField[col.From], i)
		}
		t.columns[i] = tc
	}
	for _, f := range found {
		if f.needed && !slices.ContainsFunc(c.Columns, func(col Column) bool { return col.Name == f.name }) {
			problems = append(problems, fmt.Sprintf("column %s is NOT NULL without a default, and the sink writes nothing into it", f.name))
		}
	}
	return t, problems
}

// uniqueKey checks that ON CONFLICT has an index to go by.
func (s *Sink) uniqueKey(ctx context.Context) error {
	rows, err := s.query(ctx, `SELECT array_to_string(ARRAY(SELECT a.attname FROM pg_catalog.pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey) ORDER BY 1), E'\n')
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2 AND i.indisunique AND i.indisvalid AND i.indpred IS NULL AND i.indexprs IS NULL`, s.config.Schema, s.config.Table)
	if err != nil {
		return err
	}
	key := slices.Clone(s.config.Upsert)
	slices.Sort(key)
	for _, r := range rows {
		have := strings.Split(string(r[0]), "\n")
		slices.Sort(have)
		if slices.Equal(have, key) {
			return nil
		}
	}
	return fmt.Errorf("table %s.%s has no unique index on (%s), which upsert needs: CREATE UNIQUE INDEX ON %s (%s)", s.config.Schema, s.config.Table,
		strings.Join(s.config.Upsert, ", "), qualified(s.config.Schema, s.config.Table), quoted(s.config.Upsert))
}

func (s *Sink) query(ctx context.Context, sql string, params ...string) ([][][]byte, error) {
	p := make([][]byte, len(params))
	for i := range params {
		p[i] = []byte(params[i])
	}
	res := s.conn.ExecParams(ctx, sql, p, nil, nil, nil).Read()
	return res.Rows, res.Err
}

// fill puts what lies behind held into the arrays. Records that no column can take are named; nothing is sent then.
func (t *table) fill(b *uplink.Batch, held uint64) (rejected []uplink.Rejected) {
	for i := range t.columns {
		t.columns[i].values.reset()
	}
	t.gapFirst.reset()
	t.gapLast.reset()
	t.gapReason.reset()
	for i := range b.Results {
		r := &b.Results[i]
		switch {
		case r.Last <= held:
		case r.Kind == pipeline.ResultGap:
			t.gapFirst.addInt(max(r.Seq, held+1))
			t.gapLast.addInt(r.Last)
			t.gapReason.add(gapReason(r))
		default:
			if problem := t.addRow(r); problem != "" {
				rejected = append(rejected, uplink.Rejected{Seq: r.Seq, Reason: problem})
			}
		}
	}
	return rejected
}

// addRow adds one row to the arrays, or says why it cannot.
func (t *table) addRow(r *pipeline.Result) (problem string) {
	for i := range t.set {
		t.set[i] = false
	}
	err := members(r.Payload, func(name, raw []byte) error {
		for _, i := range t.byField[string(name)] {
			text, null, wrong := t.columns[i].appendValue(raw)
			if wrong != "" && problem == "" {
				problem = wrong
			}
			t.set[i], t.text[i], t.null[i] = true, text, null
		}
		return nil
	})
	if err != nil {
		return err.Error()
	}
	for _, i := range t.perRow {
		t.set[i], t.null[i] = true, false
		switch t.columns[i].From {
		case FromSeq:
			t.text[i] = number(r.Seq)
		case FromTime:
			t.text[i], t.null[i] = fmt.Appendf(nil, "%d", r.Time), r.Time == pipeline.NoTime
		case FromRow:
			t.text[i] = r.Payload
		}
	}
	if problem != "" {
		return problem
	}
	for i := range t.columns {
		switch c := &t.columns[i]; {
		case !c.array:
		case !t.set[i] || t.null[i]:
			c.values.addNull()
		default:
			c.values.add(t.text[i])
		}
	}
	return ""
}

// params are the statement's parameters: the row moves from seen to next.
func (t *table) params(stream string, seen, next *row) [][]byte {
	p := [][]byte{[]byte(stream), number(next.generation), number(next.seq), fmt.Appendf(nil, "%016x", next.chain), number(uint64(seen.inc.Major)),
		number(uint64(seen.inc.Minor)), []byte(seen.board), number(seen.generation), number(seen.seq)}
	for i := range t.columns {
		if c := &t.columns[i]; c.array {
			p = append(p, c.values.bytes(oidText))
		}
	}
	return append(p, t.gapFirst.bytes(oidInt8), t.gapLast.bytes(oidInt8), t.gapReason.bytes(oidText))
}
