//go:build !nonats

package links

import (
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/nats"
)

// natsEndpoint makes a NATS sink as configured.
func (site *Site) natsEndpoint(t *plan.NATSTarget) (uplink.Endpoint, error) {
	c := nats.Default()
	c.URL, c.Stream, c.Subject = t.URL.Value, t.Stream.Value, t.Subject.Value
	c.CredentialsFile, c.TokenFile, c.User, c.PasswordFile, c.CAFile = t.CredentialsFile, t.TokenFile, t.User, t.PasswordFile, t.CAFile
	c.Board, c.DenyPrivate, c.Logger, c.Dates = site.Board, site.DenyPrivate, site.Logger, site.Dates
	return nats.New(c)
}
