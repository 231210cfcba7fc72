package httpsink

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/weirstream/weir/pipeline/certtime"
	"github.com/weirstream/weir/uplink"
)

const (
	// idlePerHost connections are kept open to one host by all sinks that share a transport: more that send at once connect anew.
	idlePerHost = 32
	// writeBuffer of a connection. A batch's body goes past it.
	writeBuffer = 16 << 10
)

// Transports lets sinks with equal settings share connections: hundreds of sinks to one host then hold a few connections and their buffers,
// not one each. A sink waits for none of the others: there is no limit on connections in use. The zero value is ready; it may be used by several goroutines.
type Transports struct {
	Dates certtime.Now // judges certificates

	mu     sync.Mutex
	shared map[transportKey]*sharedTransport
}

// transportKey is everything that tells two transports apart. A CA counts by its content: a renewed one makes a new transport.
type transportKey struct {
	tls        tlsContent
	ip         string // the host where it is an IP address: no handshake names it, so it takes part in how certificates are judged
	deny       bool
	dial, idle time.Duration
}

type sharedTransport struct {
	*http.Transport
	users int
}

// take gives the transport for a configuration; release is called once, when it is not needed any more.
func (t *Transports) take(c *Config) (transport *http.Transport, release func(), err error) {
	content, err := c.TLS.read()
	if err != nil {
		return nil, nil, err
	}
	host, err := c.host()
	if err != nil {
		return nil, nil, err
	}
	key := transportKey{tls: content, deny: c.DenyPrivate, dial: c.DialTimeout, idle: c.IdleTimeout}
	if net.ParseIP(host) != nil && t.Dates != nil {
		key.ip = host
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.shared[key]
	if s == nil {
		config, err := content.config()
		if err != nil {
			return nil, nil, err
		}
		s = &sharedTransport{Transport: newTransport(c, config)}
		s.ForceAttemptHTTP2 = content == tlsContent{}
		t.Dates.Judge(config, host)
		if t.shared == nil {
			t.shared = map[transportKey]*sharedTransport{}
		}
		t.shared[key] = s
	}
	s.users++
	return s.Transport, sync.OnceFunc(func() { t.release(key, s) }), nil
}

// release closes the connections behind the last user.
func (t *Transports) release(key transportKey, s *sharedTransport) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(t.shared, key)
		s.CloseIdleConnections()
	}
}

// host is the server's name or address.
func (c *Config) host() (string, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return "", fmt.Errorf("parse http sink url: %w", err)
	}
	return u.Hostname(), nil
}

func newTransport(c *Config, tlsConfig *tls.Config) *http.Transport {
	dialer, proxy := &net.Dialer{Timeout: c.DialTimeout, KeepAlive: 30 * time.Second}, http.ProxyFromEnvironment
	if c.DenyPrivate {
		dialer.Control, proxy = uplink.DenyPrivate, nil
	}
	return &http.Transport{
		Proxy:               proxy,
		DialContext:         dialer.DialContext,
		TLSClientConfig:     tlsConfig,
		TLSHandshakeTimeout: c.DialTimeout,
		MaxIdleConnsPerHost: idlePerHost,
		IdleConnTimeout:     c.IdleTimeout,
		DisableCompression:  true,
		WriteBufferSize:     writeBuffer,
	}
}

// config builds the client's TLS settings.
func (t *tlsContent) config() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.serverName}
	if t.ca != "" {
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM([]byte(t.ca)) {
			return nil, fmt.Errorf("read tls ca %s: no certificate in it", t.caFile)
		}
	}
	if certFile, keyFile := t.cert, t.key; certFile != "" {
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(certFile, keyFile)
			if err != nil {
				return nil, fmt.Errorf("read client certificate: %w", err)
			}
			return &pair, nil
		}
	}
	return c, nil
}
