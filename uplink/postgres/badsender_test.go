package postgres

import (
	"io"
	"net"
	"os"
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
	small, err := os.MkdirTemp("", "weir-small-") // t.TempDir's are shut to other users
	uplinktest.Must(t, err)
	t.Cleanup(func() { _ = os.Remove(small) })
	bad = append(bad, uplinktest.OnFullDisk(small, 256<<10, func(t *testing.T) uplink.Endpoint {
		f := newFar(t)
		uplinktest.Must(t, server.Own(small))
		sql(t, "CREATE TABLESPACE small LOCATION '"+small+"'")
		t.Cleanup(func() { sql(t, "DROP SCHEMA "+f.config.Schema+" CASCADE"); sql(t, "DROP TABLESPACE small") })
		sql(t, "DROP TABLE "+f.config.Schema+".rows")
		sql(t, "CREATE TABLE "+f.config.Schema+".rows (stream varchar(99), generation bigint, seq bigint, n bigint, text varchar(99), row varchar(99)) TABLESPACE small") // no TOAST table, whose index has a page
		f.config.DSNFile = writeDSN(t, at(server.Addr))
		return f.sink(t, "a")
	}, "could not extend file", "No space left on device", "53100"))
	bad = append(bad, uplinktest.Secured{CA: "name its CA in dsn_file: sslrootcert=FILE",
		Server: func(*testing.T) string { return server.Addr },
		Greet: func(client, _ net.Conn) error { // SSLRequest, and yes
			if _, err := io.ReadFull(client, make([]byte, 8)); err != nil {
				return err
			}
			_, err := client.Write([]byte{'S'})
			return err
		},
		Dial: func(t *testing.T, addr, ca string) uplink.Endpoint {
			f := newFar(t)
			f.config.Dates = uplinktest.Dates
			f.config.DSNFile = writeDSN(t, strings.Replace(at(addr), "sslmode=disable", "sslmode=verify-full&sslrootcert="+ca, 1))
			return f.sink(t, "a")
		}}.Certificates()...)
	for _, b := range bad {
		t.Run(b.Name, b.Run)
	}
}
