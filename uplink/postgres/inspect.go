package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// inspected is what the server says of the sink's tables.
type inspected struct {
	relations map[string]relation
	columns   []foundColumn
	keys      [][]string // columns of each unique index, sorted
}

// relation is a table as the server has it.
type relation struct{ kind, lacks, user string }

// foundColumn is a column as the server has it.
type foundColumn struct {
	name, base, schema, category, shown string
	needed, generated                   bool
}

// settingsSQL: a server whose default is off answers before the commit is durable. A statement that nobody waits for any more gives up.
const settingsSQL = `SELECT set_config('client_min_messages', 'error', false), set_config('statement_timeout', $1, false),
 set_config('synchronous_commit', CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, false)`

const relationsSQL = `SELECT v.name, c.relkind, array_to_string(ARRAY(SELECT r FROM unnest(string_to_array(v.rights, ',')) r WHERE NOT has_table_privilege(c.oid, r)), ', '), current_user
FROM (VALUES ($2::text, 'SELECT,INSERT,UPDATE'), ($3::text, 'INSERT'), ($4::text, $5::text)) v(name, rights)
JOIN pg_catalog.pg_class c ON c.relname = v.name JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1`

const columnsSQL = `SELECT a.attname, b.typname, bn.nspname, b.typcategory, format_type(a.atttypid, a.atttypmod),
 a.attnotnull AND NOT a.atthasdef AND a.attidentity = '', a.attgenerated <> '' OR a.attidentity = 'a'
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_type t ON t.oid = a.atttypid JOIN pg_catalog.pg_type b ON b.oid = COALESCE(NULLIF(t.typbasetype, 0), t.oid)
JOIN pg_catalog.pg_namespace bn ON bn.oid = b.typnamespace
WHERE n.nspname = $1 AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum`

const keysSQL = `SELECT array_to_string(ARRAY(SELECT a.attname FROM pg_catalog.pg_attribute a WHERE a.attrelid = i.indrelid
 AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])), E'\n')
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname = $2 AND i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL AND i.indexprs IS NULL`

// inspect sets the connection up and asks for all that the check needs, in one round trip.
func (s *Sink) inspect(ctx context.Context) (*inspected, error) {
	rights := "INSERT"
	if len(s.config.Upsert) > 0 {
		rights = "INSERT,SELECT,UPDATE"
	}
	wait := "0"
	if deadline, ok := ctx.Deadline(); ok {
		wait = fmt.Sprint(max(time.Until(deadline), time.Second).Milliseconds())
	}
	var batch pgconn.Batch
	ask := func(sql string, params ...string) {
		p := make([][]byte, len(params))
		for i := range params {
			p[i] = []byte(params[i])
		}
		batch.ExecParams(sql, p, nil, nil, nil)
	}
	ask(settingsSQL, wait)
	ask(relationsSQL, s.config.Schema, progressTable, gapsTable, s.config.Table, rights)
	ask(columnsSQL, s.config.Schema, s.config.Table)
	ask(keysSQL, s.config.Schema, s.config.Table)
	results, err := s.conn.ExecBatch(ctx, &batch).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("look at table %s.%s: %w", s.config.Schema, s.config.Table, err)
	}
	if len(results) != 4 {
		return nil, fmt.Errorf("look at table %s.%s: %d answers to 4 questions", s.config.Schema, s.config.Table, len(results))
	}
	in := &inspected{relations: map[string]relation{}}
	for _, r := range results[1].Rows {
		in.relations[string(r[0])] = relation{kind: string(r[1]), lacks: string(r[2]), user: string(r[3])}
	}
	for _, r := range results[2].Rows {
		in.columns = append(in.columns, foundColumn{name: string(r[0]), base: string(r[1]), schema: string(r[2]), category: string(r[3]), shown: string(r[4]),
			needed: string(r[5]) == "t", generated: string(r[6]) == "t"})
	}
	for _, r := range results[3].Rows {
		key := strings.Split(string(r[0]), "\n")
		slices.Sort(key)
		in.keys = append(in.keys, key)
	}
	return in, nil
}

// missing gives the statements that make what is not there.
func (in *inspected) missing(c *Config) (sql []string) {
	all := createSQL(c)
	for _, name := range []string{progressTable, gapsTable, c.Table} {
		if _, there := in.relations[name]; !there {
			sql = append(sql, all[name])
		}
	}
	return sql
}

// usable says what is missing, or what the user may not do.
func (in *inspected) usable(c *Config) error {
	for _, name := range []string{progressTable, gapsTable, c.Table} {
		r, there := in.relations[name]
		switch {
		case !there && name != c.Table:
			return fmt.Errorf("table %s.%s is missing: set create: true, or make it with %s", c.Schema, name, createSQL(c)[name])
		case !there:
			return fmt.Errorf("table %s.%s is missing: make it, or set create: true", c.Schema, name)
		case r.kind != "r" && r.kind != "p":
			return fmt.Errorf("%s.%s is no table (relkind %s)", c.Schema, name, r.kind)
		case r.lacks != "":
			return fmt.Errorf("user %s may not %s table %s.%s: GRANT it", r.user, r.lacks, c.Schema, name)
		}
	}
	return nil
}

// hasKey tells whether ON CONFLICT finds an index on exactly these columns.
func (in *inspected) hasKey(upsert []string) bool {
	key := slices.Clone(upsert)
	slices.Sort(key)
	return len(key) == 0 || slices.ContainsFunc(in.keys, func(have []string) bool { return slices.Equal(have, key) })
}
