package httpsink

import (
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/receiver"
	"github.com/weirstream/weir/uplink/uplinktest"
)

var one = uplink.Incarnation{Major: 1}

// TestMutualTLS: a receiver that lets in only who has a certificate gets the results, by each compression; one that is renewed in its file is
// taken without a restart, and without the right one nothing is lost: it is temporary.
func TestMutualTLS(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	clients, err := rig.NewAuthority(dir, "clients")
	uplinktest.Must(t, err)
	uplinktest.Must(t, clients.SignFiles("gw-1", file("cert"), file("key")))
	uplinktest.Must(t, clients.SignFiles("gw-1.renewed", file("next.cert"), file("next.key")))
	strangers, err := rig.NewAuthority(dir, "strangers")
	uplinktest.Must(t, err)
	uplinktest.Must(t, strangers.SignFiles("somebody", file("foreign.cert"), file("foreign.key")))
	far, err := receiver.Open(receiver.Options{Path: file("weir.db"), Config: receiver.Default()})
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	var names, encodings []string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		names = append(names, r.TLS.PeerCertificates[0].Subject.CommonName)
		encodings = append(encodings, r.Header.Get("Content-Encoding"))
		far.ServeHTTP(w, r)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients.Pool()}
	server.StartTLS()
	defer server.Close()
	if err := os.WriteFile(file("ca"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	connect := func(cert, key, compression string) *Sink {
		c := Default()
		c.URL, c.Compression, c.TLS = server.URL, compression, TLS{CA: file("ca"), Cert: cert, Key: key}
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	send := func(s *Sink, from, to uint64) {
		t.Helper()
		if _, err := s.Open(t.Context(), uplinktest.Stream(), one, 1); err != nil {
			t.Fatal(err)
		}
		if ans, err := s.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, from, to)); err != nil || ans.Durable != to {
			t.Fatalf("%+v, %v", ans, err)
		}
	}
	for cert, key := range map[string]string{"": "", file("foreign.cert"): file("foreign.key"), file("none"): file("key")} { // the planted faults: none, a wrong one, no file
		if _, err := connect(cert, key, "none").Open(t.Context(), uplinktest.Stream(), one, 1); err == nil {
			t.Fatalf("certificate %q was let in", cert)
		} else if cert == file("none") && !strings.Contains(err.Error(), "client certificate") {
			t.Errorf("no such file: %v", err)
		}
	}
	s := connect(file("cert"), file("key"), "zstd")
	send(s, 1, 100)
	for _, name := range []string{"cert", "key"} {
		if err := os.Rename(file("next."+name), file(name)); err != nil {
			t.Fatal(err)
		}
	}
	s.client.CloseIdleConnections()
	send(s, 101, 200)
	send(connect(file("cert"), file("key"), "gzip"), 201, 300)
	if got := strings.Join(names, ","); !strings.HasPrefix(got, "gw-1,gw-1,gw-1.renewed,gw-1.renewed") {
		t.Errorf("the server saw %s", got)
	}
	if got := strings.Join(encodings, ","); !strings.Contains(got, "zstd") || !strings.Contains(got, "gzip") {
		t.Errorf("bodies came as %s", got)
	}
}
