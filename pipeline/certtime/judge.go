// Package certtime judges the dates of certificates by a clock that may be wrong: a gateway without a battery starts in 1970, and must reach its broker all the same.
package certtime

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"time"
)

// Now tells the time that the dates of certificates are judged by. late says that it cannot be relied on: the true time is that or later.
// A nil Now is the machine's clock, taken at its word.
type Now func() (at time.Time, late bool)

// Judge makes connections with a client's configuration go by now. Call it when the configuration is complete; host is the server's name where neither the
// configuration nor the handshake says one (an IP address). Everything but the dates is checked as crypto/tls does by itself: chain, name, usage. While the time is late, a
// certificate that is not valid yet is judged at the start of its validity, since the true time may well be behind that; one that expired before now is refused.
// A configuration that skips verification is left as it is.
func (now Now) Judge(c *tls.Config, host string) {
	if now == nil || c.InsecureSkipVerify {
		return
	}
	c.Time = func() time.Time { at, _ := now(); return at }
	roots, name, next := c.RootCAs, cmp.Or(c.ServerName, host), c.VerifyConnection
	c.InsecureSkipVerify = true // verify does what it stands for
	c.VerifyConnection = func(s tls.ConnectionState) error {
		if err := now.verify(s.PeerCertificates, roots, cmp.Or(s.ServerName, name)); err != nil {
			return err
		}
		if next != nil {
			return next(s)
		}
		return nil
	}
}

var errNoName = errors.New("the server's name is not known, so its certificate cannot be checked")

func (now Now) verify(chain []*x509.Certificate, roots *x509.CertPool, name string) error {
	if len(chain) == 0 {
		return errors.New("the server shows no certificate")
	}
	if name == "" {
		return errNoName
	}
	at, late := now()
	o := x509.VerifyOptions{Roots: roots, DNSName: name, CurrentTime: at, Intermediates: x509.NewCertPool()}
	for i, c := range chain {
		if late && c.NotBefore.After(o.CurrentTime) {
			o.CurrentTime = c.NotBefore
		}
		if i > 0 {
			o.Intermediates.AddCert(c)
		}
	}
	if _, err := chain[0].Verify(o); err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: chain, Err: err}
	}
	return nil
}
