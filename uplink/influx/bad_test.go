package influx

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/httpsink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// TestBadServers: each is named with what to do, at the rate of kinds of failure, and all is written once it is mended.
func TestBadServers(t *testing.T) {
	var n *server
	sick := uplinktest.Sick{
		Server: func(t *testing.T) string { n = startServer(t); return n.Addr },
		Dial: func(t *testing.T, url string) uplink.Endpoint {
			n.config.URL = url
			return n.Connect(t, "")
		}}
	dir := t.TempDir()
	bad := append(sick.Nowhere(t), []uplinktest.Bad{
		{Name: "missing bucket", Want: []string{"later", "not found", "make it there"},
			Dial: func(t *testing.T) uplink.Endpoint {
				n = startServer(t)
				n.config.Bucket = "later"
				return n.Connect(t, "")
			},
			Heal: func(t *testing.T) {
				_, err := n.Query("CREATE DATABASE later")
				uplinktest.Must(t, err)
			}},
		sick.Answers("wrong token", http.StatusUnauthorized, `{"code":"unauthorized","message":"unauthorized access"}`, "401", "unauthorized access", "token_file"),
		sick.Answers("read only token", http.StatusForbidden, `{"code":"forbidden","message":"insufficient permissions for write"}`, "403", "insufficient permissions", "token_file"),
		sick.Answers("over its quota", http.StatusInsufficientStorage, `{"message":"storage quota exceeded"}`, "507", "quota", "full"),
		sick.Answers("broken", http.StatusInternalServerError, `{"code":"internal error","message":"unexpected error writing points"}`, "500", "unexpected error"),
		sick.Answers("garbage with 200", http.StatusOK, "<html>welcome</html>", "not that of InfluxDB"),
		sick.Answers("a proxy's bad gateway", http.StatusBadGateway, "<html>upstream down</html>", "502"),
	}...)
	full := uplinktest.OnFullDisk(filepath.Join(dir, "wal"), 64<<10, func(t *testing.T) uplink.Endpoint {
		n = serverIn(t, dir)
		return n.Connect(t, "")
	}, "500", "no space left on device")
	drain := full.Heal
	full.Heal = func(t *testing.T) { drain(t); n.Restart(t) } // else its log stays shut
	bad = append(append(bad, full), uplinktest.Secured{CA: "give its CA in ca",
		Server: sick.Server,
		Dial: func(t *testing.T, addr, ca string) uplink.Endpoint {
			n.config.URL, n.config.HTTP.TLS.CA, n.config.HTTP.Transports = "https://"+addr, ca, &httpsink.Transports{Dates: uplinktest.Dates}
			return n.Connect(t, "")
		}}.Certificates()...)
	for _, b := range bad {
		t.Run(b.Name, b.Run)
	}
}
