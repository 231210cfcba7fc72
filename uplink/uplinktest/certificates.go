package uplinktest

import (
	"net"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
)

// Secured is a server behind TLS, and how an endpoint gets there.
type Secured struct {
	// Server is the address of the server itself, which has no TLS.
	Server func(t *testing.T) string
	// Greet is what is said before the handshake; nil: nothing.
	Greet func(client, server net.Conn) error
	// Dial makes an endpoint on the front's address that trusts the CA in a file.
	Dial func(t *testing.T, addr, ca string) uplink.Endpoint
	// CA is how the status names the setting for the CA.
	CA string
}

// Dates is a clock for endpoints of Certificates: judging dates must loosen nothing else.
func Dates() (at time.Time, late bool) { return time.Now(), false }

// Certificates are the ways in which a server's certificate is no good: each is named with what to do, and all is delivered once the server shows a good one.
func (s Secured) Certificates() (rows []Bad) {
	const host = "127.0.0.1"
	for _, c := range []struct {
		name, authority, of string
		until               time.Duration
		want                []string
	}{
		{"certificate of an unknown CA", "foreign", host, time.Hour, []string{"unknown authority", s.CA}},
		{"expired certificate", "known", host, -time.Hour, []string{"expired", "renew it", "clock"}},
		{"certificate of another name", "known", "elsewhere.example", time.Hour, []string{"elsewhere.example", host, "address"}},
	} {
		var front *rig.TLSFront
		var known *rig.Authority
		rows = append(rows, Bad{Name: c.name, Want: c.want,
			Dial: func(t *testing.T) uplink.Endpoint {
				dir := t.TempDir()
				var err error
				if known, err = rig.NewAuthority(dir, "known"); err != nil {
					t.Fatal(err)
				}
				signer := known
				if c.authority != "known" {
					if signer, err = rig.NewAuthority(dir, c.authority); err != nil {
						t.Fatal(err)
					}
				}
				cert, err := signer.Sign(c.of, time.Now().Add(c.until))
				if err != nil {
					t.Fatal(err)
				}
				if front, err = rig.NewTLSFront(s.Server(t), cert, s.Greet); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(front.Close)
				return s.Dial(t, front.Addr(), known.File)
			},
			Heal: func(t *testing.T) {
				good, err := known.Sign(host, time.Now().Add(time.Hour))
				if err != nil {
					t.Fatal(err)
				}
				front.Show(good)
			}})
	}
	return rows
}
