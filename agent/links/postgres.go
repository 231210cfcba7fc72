//go:build !nopostgres

package links

import (
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/postgres"
)

// postgresEndpoint makes a PostgreSQL sink as configured.
func (site *Site) postgresEndpoint(s *plan.Sink) (uplink.Endpoint, error) {
	p := s.Spec.Postgres
	c := postgres.Config{DSNFile: p.DSNFile, Schema: p.Schema.Value, Table: p.Table.Value, Create: p.Create, Board: site.Board,
		AllowPlaintext: site.AllowPlaintext, DenyPrivate: site.DenyPrivate, Dates: site.Dates}
	for _, k := range p.Upsert {
		c.Upsert = append(c.Upsert, k.Value)
	}
	for _, col := range s.Table {
		c.Columns = append(c.Columns, postgres.Column(col))
	}
	return postgres.New(c)
}
