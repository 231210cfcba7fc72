package suggest

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"strings"
)

// Certificate tells what to do about a server whose certificate was not accepted, "" when err says nothing of the kind. ca is what to do when
// nobody known signed it.
func Certificate(err error, ca string) string {
	var invalid x509.CertificateInvalidError
	var name x509.HostnameError
	var other *tls.CertificateVerificationError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired: // or not valid yet
		return "; renew it at the server, unless this device's clock is wrong"
	case errors.As(err, &name):
		return "; its certificate is for " + names(name.Certificate) + ": is the address right?"
	case errors.As(err, &other), errors.As(err, new(x509.UnknownAuthorityError)):
		return "; if it is the right server, " + ca
	}
	return ""
}

// namesMax bounds how many names of a certificate are told.
const namesMax = 3

// names of a certificate, without what a terminal would act on: it is a stranger's.
func names(c *x509.Certificate) string {
	var all []string
	for _, ip := range c.IPAddresses {
		all = append(all, ip.String())
	}
	for _, name := range c.DNSNames {
		all = append(all, strings.ToValidUTF8(strings.Map(func(r rune) rune {
			if r < ' ' || r >= 0x7F && r < 0xA0 {
				return '?'
			}
			return r
		}, name), "?"))
	}
	switch {
	case len(all) == 0:
		return "no address or name"
	case len(all) > namesMax:
		return strings.Join(all[:namesMax], ", ") + " and others"
	}
	return strings.Join(all, ", ")
}
