package agent

import (
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/httpsink"
)

// httpEndpoint makes an HTTP sink as configured.
func (a *attempt) httpEndpoint(h *plan.HTTPTarget) (uplink.Endpoint, error) {
	c := httpsink.Default()
	c.URL, c.Protocol, c.TokenFile, c.TLS, c.Board = h.URL.Value, h.Protocol, h.TokenFile, tlsOf(&h.Certificates), a.agent.board()
	c.Transports = a.agent.transports
	c.DenyPrivate = !a.agent.config.Security.AllowPrivate
	if h.Compression != "" {
		c.Compression = h.Compression
	}
	if h.Gzip {
		c.Compression = "gzip"
	}
	c.Headers = map[string]string{}
	for _, header := range h.Headers {
		c.Headers[header.Name.Value] = header.Expr.Value
	}
	return httpsink.New(c)
}

func tlsOf(c *plan.Certificates) httpsink.TLS {
	return httpsink.TLS{CA: c.CAFile, Cert: c.CertFile, Key: c.KeyFile}
}
