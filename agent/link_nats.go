//go:build !nonats

package agent

import (
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/nats"
)

// natsEndpoint makes a NATS sink as configured.
func (a *attempt) natsEndpoint(t *plan.NATSTarget) (uplink.Endpoint, error) {
	c := nats.Default()
	c.URL, c.Stream, c.Subject = t.URL.Value, t.Stream.Value, t.Subject.Value
	c.CredentialsFile, c.TokenFile, c.User, c.PasswordFile, c.CAFile = t.CredentialsFile, t.TokenFile, t.User, t.PasswordFile, t.CAFile
	c.Board, c.DenyPrivate, c.Logger, c.Dates = a.agent.board(), !a.agent.config.Security.AllowPrivate, a.log, a.agent.clock.Wall
	return nats.New(c)
}
