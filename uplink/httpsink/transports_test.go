package httpsink

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"
)

func sinkWith(t *testing.T, shared *Transports, change func(*Config)) *Sink {
	t.Helper()
	c := Default()
	c.URL, c.Transports = "https://far.example/weir", shared
	change(&c)
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestSinksWithEqualSettingsShareATransport(t *testing.T) {
	shared := &Transports{}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	write := func(text string) {
		if err := os.WriteFile(ca, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(testCA)
	plain := func(*Config) {}
	withCA := func(c *Config) { c.TLS.CA = ca }
	one, two := sinkWith(t, shared, plain), sinkWith(t, shared, plain)
	if one.client.Transport != two.client.Transport {
		t.Error("equal settings, two transports")
	}
	seen := map[http.RoundTripper]bool{one.client.Transport: true}
	for name, change := range map[string]func(*Config){
		"deny private": func(c *Config) { c.DenyPrivate = true }, "dial": func(c *Config) { c.DialTimeout *= 2 },
		"idle": func(c *Config) { c.IdleTimeout *= 2 }, "server name": func(c *Config) { c.TLS.ServerName = "x" }, "ca": withCA,
	} {
		s := sinkWith(t, shared, change)
		if seen[s.client.Transport] {
			t.Errorf("%s: shares a transport with other settings", name)
		}
		seen[s.client.Transport] = true
	}
	if a := sinkWith(t, shared, withCA); !seen[a.client.Transport] {
		t.Error("the same certificate, two transports")
	}
	write(testCA + "\n# renewed\n")
	if a := sinkWith(t, shared, withCA); seen[a.client.Transport] {
		t.Error("a renewed certificate is not taken")
	}
	kept := one.client.Transport
	for range 2 { // a repeat is harmless
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if three := sinkWith(t, shared, plain); three.client.Transport != kept {
		t.Error("the transport went while a sink used it")
	} else {
		three.Close()
	}
	two.Close()
	if last := sinkWith(t, shared, plain); last.client.Transport == kept {
		t.Error("a transport without a sink was kept")
	}
}

// testCA is a certificate that signs nothing.
const testCA = `-----BEGIN CERTIFICATE-----
MIIBRjCB7aADAgECAgEBMAoGCCqGSM49BAMCMBIxEDAOBgNVBAMTB3Rlc3QgY2Ew
IBcNNzAwMTAxMDAwMDAwWhgPMjA5NjEwMDIwNzA2NDBaMBIxEDAOBgNVBAMTB3Rl
c3QgY2EwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAARp8Wd6GzgZEhOUaH4iuNY6
Jl22kyQsRMXeETOQKdBt7vc8vOtj80gOzpSpPHnJCoMRcBWmFjs6+7cVFlyP59d9
ozIwMDAPBgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBTvGNaVdXmjYNSz5DksfTFa
7RIxjTAKBggqhkjOPQQDAgNIADBFAiBDaYq+Mpoy35ueZkP4jSnzXs6HCyZALZ9X
mGNHlDEZvwIhAL89614/LF0jzTKv5HPWvbe9o9p0W5AR1kikvWK528Xa
-----END CERTIFICATE-----
`
