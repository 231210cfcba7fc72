package links

import (
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/httpsink"
)

// httpEndpoint makes an HTTP sink as configured.
func (site *Site) httpEndpoint(h *plan.HTTPTarget) (uplink.Endpoint, error) {
	c := httpsink.Default()
	c.URL, c.Protocol, c.TokenFile, c.TLS, c.Board = h.URL.Value, h.Protocol, h.TokenFile, tlsOf(&h.Certificates), site.Board
	c.Transports = site.Transports
	c.DenyPrivate = site.DenyPrivate
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
