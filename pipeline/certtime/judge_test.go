package certtime

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"testing"
	"time"
)

var (
	now  = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	year = 365 * 24 * time.Hour
)

// authority signs certificates of a test.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: now.Add(-10 * year), NotAfter: now.Add(50 * year),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &a.key.PublicKey, a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (a *authority) sign(from, until time.Time, usage x509.ExtKeyUsage) tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: from, NotAfter: until, DNSNames: []string{"broker"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{usage}}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, &key.PublicKey, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// meet shakes hands over a pipe.
func meet(client *tls.Config, cert tls.Certificate) error {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	server := tls.Server(b, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12})
	go func() { _ = server.Handshake() }()
	_ = a.SetDeadline(time.Now().Add(time.Minute))
	return tls.Client(a, client).Handshake()
}

func TestJudge(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	valid := ca.sign(now.Add(-year), now.Add(year), x509.ExtKeyUsageServerAuth)
	expired := ca.sign(now.Add(-2*year), now.Add(-year), x509.ExtKeyUsageServerAuth)
	renewed := ca.sign(now.Add(2*year), now.Add(3*year), x509.ExtKeyUsageServerAuth)
	usage := ca.sign(now.Add(-year), now.Add(year), x509.ExtKeyUsageClientAuth)
	foreign := other.sign(now.Add(-year), now.Add(year), x509.ExtKeyUsageServerAuth)
	sure := Now(func() (time.Time, bool) { return now, false })
	late := Now(func() (time.Time, bool) { return now, true })
	for _, c := range []struct {
		what   string
		now    Now
		name   string // of the configuration
		host   string
		cert   tls.Certificate
		passes bool
	}{
		{"valid", sure, "broker", "", valid, true},
		{"valid, late", late, "broker", "", valid, true},
		{"by address", sure, "", "127.0.0.1", valid, true},
		{"another address", sure, "", "127.0.0.2", valid, false},
		{"another name", sure, "other", "", valid, false},
		{"another name, late", late, "other", "", valid, false},
		{"the name goes before the host", sure, "other", "127.0.0.1", valid, false},
		{"no name", sure, "", "", valid, false},
		{"expired", sure, "broker", "", expired, false},
		{"expired, late", late, "broker", "", expired, false},
		{"not valid yet", sure, "broker", "", renewed, false},
		{"renewed while the device was off", late, "broker", "", renewed, true},
		{"of a client", sure, "broker", "", usage, false},
		{"of a client, late", late, "broker", "", usage, false},
		{"unknown CA", sure, "broker", "", foreign, false},
		{"unknown CA, late", late, "broker", "", foreign, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: c.name, MinVersion: tls.VersionTLS12}
			config.RootCAs.AddCert(ca.cert)
			c.now.Judge(config, c.host)
			err := meet(config, c.cert)
			if (err == nil) != c.passes {
				t.Errorf("handshake: %v", err)
			}
			var verification *tls.CertificateVerificationError
			if err != nil && !errors.Is(err, errNoName) && !errors.As(err, &verification) {
				t.Errorf("%T %v is none that callers know", err, err)
			}
		})
	}
}

// TestJudgeKeepsWhatWasSet: an own check still runs, and a configuration that verifies nothing still does not.
func TestJudgeKeepsWhatWasSet(t *testing.T) {
	ca := newAuthority(t)
	cert := ca.sign(now.Add(-year), now.Add(year), x509.ExtKeyUsageServerAuth)
	own := errors.New("own")
	config := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "broker", VerifyConnection: func(tls.ConnectionState) error { return own }}
	config.RootCAs.AddCert(ca.cert)
	sure := Now(func() (time.Time, bool) { return now, false })
	sure.Judge(config, "")
	if err := meet(config, cert); !errors.Is(err, own) {
		t.Errorf("handshake: %v", err)
	}
	open := &tls.Config{InsecureSkipVerify: true}
	sure.Judge(open, "")
	if open.VerifyConnection != nil {
		t.Error("verification was asked for")
	}
	var machine Now
	plain := &tls.Config{ServerName: "broker"}
	machine.Judge(plain, "")
	if plain.InsecureSkipVerify || plain.Time != nil {
		t.Error("without a clock of its own the configuration changes")
	}
}
