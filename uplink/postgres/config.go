package postgres

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/certtime"
)

// What a column may hold besides a field of the row.
const (
	FromStream     = "$stream"     // gateway/pipeline-uuid/sink
	FromGateway    = "$gateway"    // the first part of it
	FromGeneration = "$generation" // 1, 2, …
	FromSeq        = "$seq"        // the result's sequence
	FromTime       = "$time"       // event time, ms; NULL where a result has none
	FromRow        = "$row"        // the whole row as JSON
)

// Column is one column of the table.
type Column struct {
	Name string
	From string // a field of the row, or one of From…
	// Kind of the field; Null when only the run tells.
	Kind pipeline.Kind
	// Timestamp: an integer of Unix milliseconds that becomes a timestamptz.
	Timestamp bool
}

// Config of one sink.
type Config struct {
	// DSNFile holds the connection string (URL or key=value form, as libpq); it is read again at each connection.
	DSNFile string
	Schema  string
	Table   string
	// Create makes schema objects that are missing: the table, weir_progress, weir_gaps.
	Create bool
	// Upsert names key columns: a row replaces the one with the same key. Empty: every row is added.
	Upsert  []string
	Columns []Column
	// Board is told upstream, which refuses an equal incarnation of another board (RULES 28).
	Board string
	// DenyPrivate refuses servers on this device and in private networks, as they are dialled.
	DenyPrivate bool
	Dates       certtime.Now // judges certificates; sslmode=verify-ca goes by the machine's clock all the same
	// AllowPlaintext accepts a DSN that may reach a host off this device without TLS.
	AllowPlaintext bool
}

// Default writes into schema public.
func Default() Config { return Config{Schema: "public"} }

// identifierBytesMax is PostgreSQL's limit; a longer name is cut silently there.
const identifierBytesMax = 63

// Validate names the first field that is out of range.
func (c *Config) Validate() error {
	switch {
	case c.DSNFile == "":
		return fmt.Errorf("postgres sink has no dsn_file")
	case len(c.Columns) == 0:
		return fmt.Errorf("postgres sink has no columns")
	case c.Table == progressTable || c.Table == gapsTable:
		return fmt.Errorf("postgres sink table is %q, which is weir's own", c.Table)
	}
	if !slices.ContainsFunc(c.Columns, func(o Column) bool { return o.From != FromStream && o.From != FromGateway && o.From != FromGeneration }) {
		return fmt.Errorf("postgres sink has no column that holds anything of a row")
	}
	names := []string{c.Schema, c.Table}
	for i, col := range c.Columns {
		if slices.ContainsFunc(c.Columns[:i], func(o Column) bool { return o.Name == col.Name }) {
			return fmt.Errorf("postgres sink column %q is there twice", col.Name)
		}
		names = append(names, col.Name)
	}
	for _, n := range names {
		if n == "" || len(n) > identifierBytesMax {
			return fmt.Errorf("postgres sink name is %q, allowed is 1 to %d bytes", n, identifierBytesMax)
		}
	}
	for _, k := range c.Upsert {
		if !slices.ContainsFunc(c.Columns, func(o Column) bool { return o.Name == k }) {
			return fmt.Errorf("postgres sink upsert names %q, which is none of its columns", k)
		}
	}
	return nil
}
