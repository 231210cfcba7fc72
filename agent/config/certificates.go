package config

import "github.com/weirstream/weir/pipeline/plan"

// certificates are the settings of a sink over HTTPS.
func certificates[P any](of func(P) *plan.Certificates) []*setting {
	return []*setting{
		set("ca", at(func(t P) *string { return &of(t).CAFile }).is(fileKind), "CA certificates (PEM). Left out: the system's."),
		set("cert", at(func(t P) *string { return &of(t).CertFile }).is(fileKind), "Client certificate (PEM), where the server asks for one (mTLS). Read again at each connection."),
		set("key", at(func(t P) *string { return &of(t).KeyFile }).is(fileKind), "Key of the client certificate (PEM).", secretFile()),
	}
}

// checkCertificates: one of the two is of no use. A URL without TLS would never show it.
func checkCertificates(r *reader, n *node, c *plan.Certificates) {
	if (c.CertFile == "") != (c.KeyFile == "") {
		r.problems.Add(n.pos, "", "cert and key come together", "it has one of cert and key")
	}
}
