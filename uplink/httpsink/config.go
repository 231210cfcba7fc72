package httpsink

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Protocols.
const (
	// ProtocolWeir speaks PROTOCOL.md: exactly once.
	ProtocolWeir = "weir"
	// ProtocolPlain posts the rows to any endpoint, with an Idempotency-Key: exactly once only where that is honoured.
	ProtocolPlain = "plain"
)

// Config of one HTTP sink.
type Config struct {
	URL      string
	Protocol string // ProtocolWeir or ProtocolPlain
	// Format of a plain body: "ndjson" (one row per line) or "array" (a JSON array of rows).
	Format string
	// Compression of request bodies: "none", "gzip" or "zstd". Bodies under 1 KiB are sent as they are.
	Compression string
	Headers     map[string]string
	// TokenFile holds a bearer token; it is read again when the endpoint answers 401.
	TokenFile string
	// TokenScheme is put before the token.
	TokenScheme string
	TLS         TLS
	// Board is told to the receiver, which refuses an equal incarnation from another board.
	Board string
	// MaxRecordBytes is the largest row that the endpoint takes, 0 when it has no limit.
	MaxRecordBytes int
	// MaxAnswerBytes bounds what is read of an answer.
	MaxAnswerBytes int64
	// IdleTimeout closes a connection that carried nothing for so long.
	IdleTimeout time.Duration
	// DenyPrivate refuses to connect to loopback, link-local and private addresses, whatever the host's name resolves to: the
	// author of a pipeline must not reach local services by it (DESIGN.md §16). A proxy from the environment is not used then.
	DenyPrivate bool
	// DialTimeout bounds connecting and the TLS handshake each.
	DialTimeout time.Duration
	// Transports is what sinks share their connections by; nil: this one has its own.
	Transports *Transports
}

// TLS options of the client. Files are PEM. Certificate and key may be renewed in their files while the sink runs, and need not be there yet when it is made.
type TLS struct {
	CA, Cert, Key string
	ServerName    string
}

// Default speaks weir's protocol, uncompressed.
func Default() Config {
	return Config{Protocol: ProtocolWeir, Format: "ndjson", Compression: "none", MaxAnswerBytes: 1 << 20, TokenScheme: "Bearer",
		IdleTimeout: 90 * time.Second, DialTimeout: 30 * time.Second}
}

// Validate names the first field that is out of range.
func (c *Config) Validate() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("http sink url is %q, want http://... or https://...", c.URL)
	case u.User != nil:
		return fmt.Errorf("http sink url holds a password; use token_file or headers")
	case c.Protocol != ProtocolWeir && c.Protocol != ProtocolPlain:
		return fmt.Errorf("http sink protocol is %q, allowed is weir, plain", c.Protocol)
	case c.Format != "ndjson" && c.Format != "array":
		return fmt.Errorf("http sink format is %q, allowed is ndjson, array", c.Format)
	case c.Compression != "none" && c.Compression != "gzip" && c.Compression != "zstd":
		return fmt.Errorf("http sink compression is %q, allowed is none, gzip, zstd", c.Compression)
	case c.MaxRecordBytes < 0:
		return fmt.Errorf("http sink max_record_bytes is %d, allowed is 0 or more", c.MaxRecordBytes)
	case c.MaxAnswerBytes < 1024:
		return fmt.Errorf("http sink max_answer_bytes is %d, allowed is 1024 or more", c.MaxAnswerBytes)
	case c.DialTimeout <= 0:
		return fmt.Errorf("http sink dial_timeout is %s, allowed is more than 0", c.DialTimeout)
	}
	for k := range c.Headers {
		if canonical := http.CanonicalHeaderKey(k); strings.HasPrefix(canonical, "Weir-") || canonical == "Idempotency-Key" ||
			canonical == "Content-Encoding" || canonical == "Content-Type" {
			return fmt.Errorf("http sink header %s is set by weir itself", canonical)
		}
	}
	return nil
}

// tlsContent is what the TLS options and their files say. Comparable: equal content is one transport.
type tlsContent struct {
	ca, serverName string
	caFile         string // for errors
	cert, key      string // file names: they are read at each handshake
}

// read reads the files.
func (t *TLS) read() (c tlsContent, err error) {
	c.serverName, c.caFile, c.cert, c.key = t.ServerName, t.CA, t.Cert, t.Key
	if t.CA != "" {
		b, err := os.ReadFile(t.CA)
		if err != nil {
			return c, fmt.Errorf("read tls ca: %w", err)
		}
		if c.ca = string(b); c.ca == "" {
			return c, fmt.Errorf("read tls ca %s: no certificate in it", t.CA)
		}
	}
	return c, nil
}
