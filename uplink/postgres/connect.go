package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirstream/weir/pipeline/suggest"
	"github.com/weirstream/weir/uplink"
)

// ErrPlaintext says that the DSN lets a host off this device be reached without TLS, and that the settings do not allow that.
var ErrPlaintext = errors.New("connection would not be encrypted")

// messageBytesMax bounds one message of the server: what answers there may be no PostgreSQL.
const messageBytesMax = 16 << 20

// closeTimeout bounds the goodbye to the server.
const closeTimeout = time.Second

// connect makes a connection where there is none.
func (s *Sink) connect(ctx context.Context) error {
	if s.conn != nil && !s.conn.IsClosed() {
		return nil
	}
	s.drop()
	c, err := s.readDSN()
	if err != nil {
		return err
	}
	conn, err := pgconn.ConnectConfig(ctx, c)
	if err != nil {
		return s.refusal(fmt.Errorf("connect to postgres: %w%s", err, remedy(err)))
	}
	s.conn = conn
	return nil
}

// remedy tells what to do about a server that cannot be reached, "" when waiting is all.
func remedy(err error) string {
	if strings.Contains(err.Error(), "server refused TLS connection") { // the driver has no type for it
		return "; switch TLS on there, or say in dsn_file that it has none: sslmode=disable"
	}
	return suggest.Certificate(err, "name its CA in dsn_file: sslrootcert=FILE")
}

// readDSN reads the file again each time: a password may have been renewed. No error holds what the file says.
func (s *Sink) readDSN() (*pgconn.Config, error) {
	b, err := os.ReadFile(s.config.DSNFile)
	if err != nil {
		return nil, fmt.Errorf("read dsn_file: %w", err)
	}
	text := strings.TrimSpace(string(b))
	if text == "" {
		return nil, fmt.Errorf("read dsn_file: %s is empty", s.config.DSNFile)
	}
	c, err := pgconn.ParseConfig(text)
	if err != nil { // the error quotes the text
		return nil, fmt.Errorf("read dsn_file: %s holds no connection string such as postgres://user:password@host:5432/database?sslmode=verify-full", s.config.DSNFile)
	}
	if !s.config.AllowPlaintext {
		if host := plaintextHost(c); host != "" {
			return nil, fmt.Errorf("%w: dsn_file lets %s be reached without TLS; add sslmode=verify-full, or set security.allow_plaintext: true", ErrPlaintext, host)
		}
	}
	for _, f := range append([]*pgconn.FallbackConfig{{Host: c.Host, TLSConfig: c.TLSConfig}}, c.Fallbacks...) {
		if f.TLSConfig != nil {
			s.config.Dates.Judge(f.TLSConfig, f.Host)
		}
	}
	if s.config.DenyPrivate {
		c.DialFunc = dialPublic
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "weir"
	}
	c.MaxProtocolMessageBodyLen = messageBytesMax
	return c, nil
}

// dialPublic dials what is neither on this device nor in a private network.
func dialPublic(ctx context.Context, network, address string) (net.Conn, error) {
	if network == "unix" {
		return nil, fmt.Errorf("dial %s: %w; set security.allow_private: true to accept it", address, uplink.ErrPrivate)
	}
	d := net.Dialer{KeepAlive: 5 * time.Minute, Control: uplink.DenyPrivate} // the driver's own
	return d.DialContext(ctx, network, address)
}

// plaintextHost is the first host off this device that the configuration may reach without TLS.
func plaintextHost(c *pgconn.Config) string {
	all := []*pgconn.FallbackConfig{{Host: c.Host, TLSConfig: c.TLSConfig}}
	for _, f := range append(all, c.Fallbacks...) {
		if f.TLSConfig == nil && !strings.HasPrefix(f.Host, "/") && !loopback(f.Host) {
			return f.Host
		}
	}
	return ""
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// drop closes the connection and forgets what was learned on it.
func (s *Sink) drop() {
	if s.conn != nil {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		_ = s.conn.Close(ctx) // it is given up
	}
	s.conn, s.table = nil, nil
}
