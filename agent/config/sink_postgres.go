package config

import (
	"time"

	"github.com/weirstream/weir/pipeline/plan"
)

// sqlNameKind is a name in PostgreSQL; weir quotes it.
var sqlNameKind = textKind{what: "a name of 1 to 63 bytes", check: checkSQLName, allowed: "1 to 63 bytes, without control characters; case is kept"}

func checkSQLName(name string) string {
	if name == "" || len(name) > 63 {
		return "PostgreSQL cuts names at 63 bytes"
	}
	for _, r := range name {
		if r < ' ' || r == 0x7F {
			return "the name holds a control character"
		}
	}
	if name == "weir_progress" || name == "weir_gaps" {
		return "the table is weir's own"
	}
	return ""
}

var postgresObject = &object[plan.PostgresTarget]{place: func(p *plan.PostgresTarget, at plan.Pos) { p.Pos = at }, section: section{what: "postgres", list: []*setting{
	set("dsn_file", at(func(p *plan.PostgresTarget) *string { return &p.DSNFile }).is(fileKind),
		"File with the connection string, postgres://user:password@host/database?sslmode=verify-full or key=value pairs. Read again at each connection.", secretFile(), required()),
	set("table", at(func(p *plan.PostgresTarget) *plan.Text { return &p.Table }).is(sqlNameKind), "Table that takes the rows.", required()),
	set("schema", at(func(p *plan.PostgresTarget) *plan.Text { return &p.Schema }).is(sqlNameKind), "Schema of the table, and of weir_progress and weir_gaps.", byDefault("public")),
	set("create", at(func(p *plan.PostgresTarget) *bool { return &p.Create }).is(boolKind{}), "Make tables that are missing. What is there is checked, never changed.", byDefault("false")),
	set("upsert", at(func(p *plan.PostgresTarget) *[]plan.Text { return &p.Upsert }).is(textsKind{sqlNameKind}),
		"Key columns: a row replaces the one with the same key (needs a unique index). Left out: every row is added."),
	set("columns", at(func(p *plan.PostgresTarget) *[]plan.ColumnSpec { return &p.Columns }).is(columnsKind{what: "column", texts: "fields of the rows, or $seq, $generation, $stream, $gateway, $time, $row", free: true}), "Which column of the table takes what. Left out: every column of the rows, under its own name."),
	set("timestamps", at(func(p *plan.PostgresTarget) *[]plan.Text { return &p.Timestamps }).is(textsKind{sqlNameKind}),
		"Columns of integer milliseconds (window_start, window_end, $time) that are timestamptz in the table."),
	set("batch", at(func(p *plan.PostgresTarget) *plan.PostgresTarget { return p }).is(postgresBatch), "Size of a transaction."),
	set("timeout", at(func(p *plan.PostgresTarget) *int64 { return &p.TimeoutNs }).is(nanoseconds{durationKind{least: 100 * time.Millisecond, most: time.Hour}}),
		"How long connecting or a transaction may take.", byDefault("30s")),
}}}

var postgresBatch = &object[plan.PostgresTarget]{section: section{what: "batch", list: []*setting{
	set("records", at(func(p *plan.PostgresTarget) *int { return &p.BatchRecords }).is(intKind{1, 100000}), "Most results of a transaction.", byDefault("500")),
	set("bytes", at(func(p *plan.PostgresTarget) *int64 { return &p.BatchBytes }).is(sizeKind{least: 1 << 10, most: 64 << 20}), "Most bytes of a transaction.", byDefault("1MiB")),
}}}
