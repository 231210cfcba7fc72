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

var postgresObject = &object[plan.PostgresTarget]{what: "postgres", place: func(p *plan.PostgresTarget, at plan.Pos) { p.Pos = at }, list: []*setting{
	set("dsn_file", fileKind, func(p *plan.PostgresTarget) *string { return &p.DSNFile },
		"File with the connection string, postgres://user:password@host/database?sslmode=verify-full or key=value pairs. Read again at each connection.", secretFile(), required()),
	set("table", sqlNameKind, func(p *plan.PostgresTarget) *plan.Text { return &p.Table }, "Table that takes the rows.", required()),
	set("schema", sqlNameKind, func(p *plan.PostgresTarget) *plan.Text { return &p.Schema }, "Schema of the table, and of weir_progress and weir_gaps.", byDefault("public")),
	set("create", boolKind{}, func(p *plan.PostgresTarget) *bool { return &p.Create }, "Make tables that are missing. What is there is checked, never changed.", byDefault("false")),
	set("upsert", textsKind{sqlNameKind}, func(p *plan.PostgresTarget) *[]plan.Text { return &p.Upsert },
		"Key columns: a row replaces the one with the same key (needs a unique index). Left out: every row is added."),
	set("columns", columnsKind{what: "column", texts: "fields of the rows, or $seq, $generation, $stream, $gateway, $time, $row", free: true},
		func(p *plan.PostgresTarget) *[]plan.ColumnSpec { return &p.Columns }, "Which column of the table takes what. Left out: every column of the rows, under its own name."),
	set("timestamps", textsKind{sqlNameKind}, func(p *plan.PostgresTarget) *[]plan.Text { return &p.Timestamps },
		"Columns of integer milliseconds (window_start, window_end, $time) that are timestamptz in the table."),
	set("batch", postgresBatch, func(p *plan.PostgresTarget) *plan.PostgresTarget { return p }, "Size of a transaction."),
	set("timeout", nanoseconds{durationKind{least: 100 * time.Millisecond, most: time.Hour}}, func(p *plan.PostgresTarget) *int64 { return &p.TimeoutNs },
		"How long connecting or a transaction may take.", byDefault("30s")),
}}

var postgresBatch = &object[plan.PostgresTarget]{what: "batch", list: []*setting{
	set("records", intKind{1, 100000}, func(p *plan.PostgresTarget) *int { return &p.BatchRecords }, "Most results of a transaction.", byDefault("500")),
	set("bytes", sizeKind{least: 1 << 10, most: 64 << 20}, func(p *plan.PostgresTarget) *int64 { return &p.BatchBytes }, "Most bytes of a transaction.", byDefault("1MiB")),
}}
