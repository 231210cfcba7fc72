package httpsink

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/receiver"
	"github.com/weirstream/weir/uplink/uplinktest"
)

var one = uplink.Incarnation{Major: 1}

// clientPair writes a certificate that signs itself, and its key.
func clientPair(t *testing.T, certFile, keyFile, name string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, BasicConstraintsValid: true, IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// TestMutualTLS: a receiver that lets in only who has a certificate gets the results, by each compression; one that is renewed in its file is
// taken without a restart, and without the right one nothing is lost: it is temporary.
func TestMutualTLS(t *testing.T) {
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	first := clientPair(t, file("cert"), file("key"), "gw-1")
	second := clientPair(t, file("next.cert"), file("next.key"), "gw-1 renewed")
	clientPair(t, file("foreign.cert"), file("foreign.key"), "somebody")
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
	pool := x509.NewCertPool()
	pool.AddCert(first)
	pool.AddCert(second)
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
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
	if got := strings.Join(names, ","); !strings.HasPrefix(got, "gw-1,gw-1,gw-1 renewed,gw-1 renewed") {
		t.Errorf("the server saw %s", got)
	}
	if got := strings.Join(encodings, ","); !strings.Contains(got, "zstd") || !strings.Contains(got, "gzip") {
		t.Errorf("bodies came as %s", got)
	}
}
