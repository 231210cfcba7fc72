package postgres

import (
	"strings"
	"testing"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// TestBadServersAtASaneRate: each is named, at the rate of kinds of failure, and all is written once it is mended.
func TestBadServersAtASaneRate(t *testing.T) {
	addr, err := rig.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	dial := func(change func(t *testing.T, f *far) string) func(t *testing.T) uplink.Endpoint {
		return func(t *testing.T) uplink.Endpoint {
			f := newFar(t)
			f.config.DSNFile = writeDSN(t, change(t, f))
			return f.sink(t, "a")
		}
	}
	at := func(host string) string { return strings.Replace(server.DSN(server.Addr), server.Addr, host, 1) }
	bad := []uplinktest.Bad{
		{Name: "nobody listens", Want: []string{addr, "connection refused"}, Secret: rig.PostgresPassword,
			Dial: dial(func(*testing.T, *far) string { return at(addr) }),
			Heal: func(t *testing.T) {
				p, err := rig.NewProxyAt(addr, server.Addr)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { p.Close() })
			}},
		{Name: "no such name", Want: []string{"nowhere..invalid", "no such host"}, Secret: rig.PostgresPassword,
			Dial: dial(func(*testing.T, *far) string {
				return strings.Replace(at("nowhere..invalid:5432"), "disable", "verify-full", 1)
			})},
		{Name: "no TLS there", Want: []string{"TLS", "sslmode"}, Secret: rig.PostgresPassword,
			Dial: dial(func(*testing.T, *far) string {
				return strings.Replace(at(server.Addr), "sslmode=disable", "sslmode=require", 1)
			})},
		{Name: "wrong password", Want: []string{"postgres refuses the login", "28P01", "dsn_file"}, Secret: "sesame",
			Dial: dial(func(*testing.T, *far) string {
				return strings.Replace(at(server.Addr), rig.PostgresPassword, "sesame", 1)
			})},
		{Name: "wrong column type", Want: []string{"column n is boolean", "it is to be bigint"},
			Dial: dial(func(t *testing.T, f *far) string {
				sql(t, "ALTER TABLE "+f.config.Schema+".rows ALTER n TYPE bool USING true")
				return at(server.Addr)
			})},
	}
	for _, b := range bad {
		t.Run(b.Name, b.Run)
	}
}
