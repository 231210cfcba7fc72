package mqtt

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/weirstream/weir/pipeline/suggest"
)

// transport is what a URL's scheme stands for.
type transport struct {
	encrypted, websocket bool
	port                 string
}

func transportOf(u *url.URL) (transport, error) {
	if u.Hostname() == "" {
		return transport{}, fmt.Errorf("url %s has no host", u.Redacted())
	}
	switch u.Scheme {
	case "mqtt", "tcp":
		return transport{port: "1883"}, nil
	case "mqtts", "ssl", "tls":
		return transport{encrypted: true, port: "8883"}, nil
	case "ws":
		return transport{websocket: true, port: "80"}, nil
	case "wss":
		return transport{encrypted: true, websocket: true, port: "443"}, nil
	}
	return transport{}, fmt.Errorf("url %s: scheme must be mqtt, mqtts, ws or wss", u.Redacted())
}

// unknownCA is what to do about a broker that nobody known signed for.
const unknownCA = "give its CA in tls.ca"

// Dial opens the byte stream to the broker. Certificates are read anew each time, so that renewed ones are taken.
func Dial(ctx context.Context, c *SessionConfig) (net.Conn, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, fmt.Errorf("parse url: %w", err)
	}
	kind, err := transportOf(u)
	if err != nil {
		return nil, err
	}
	var secure *tls.Config
	if kind.encrypted {
		if secure, err = tlsConfig(c, u.Hostname()); err != nil {
			return nil, err
		}
	}
	if kind.websocket {
		conn, err := paho.NewWebsocket(c.URL, secure, c.ConnectTimeout, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("dial %s: %w%s", u.Redacted(), err, suggest.Certificate(err, unknownCA))
		}
		return conn, nil
	}
	port := u.Port()
	if port == "" {
		port = kind.port
	}
	ctx, cancel := context.WithTimeout(ctx, c.ConnectTimeout)
	defer cancel()
	address := net.JoinHostPort(u.Hostname(), port)
	var conn net.Conn
	if secure != nil {
		conn, err = (&tls.Dialer{Config: secure}).DialContext(ctx, "tcp", address)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w%s", address, err, suggest.Certificate(err, unknownCA))
	}
	return conn, nil
}

func tlsConfig(c *SessionConfig, host string) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host}
	if c.ServerName != "" {
		t.ServerName = c.ServerName
	}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read ca: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read ca %s: no PEM certificate in it", c.CAFile)
		}
	}
	if c.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read client certificate: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	c.Dates.Judge(t, host)
	return t, nil
}

// Password reads the password file; "" when there is none.
func Password(c *SessionConfig) (string, error) {
	if c.PasswordFile == "" {
		return "", nil
	}
	b, err := os.ReadFile(c.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("read password file: %w", err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}
