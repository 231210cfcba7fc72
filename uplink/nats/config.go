package nats

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/certtime"
)

// Config of one NATS sink.
type Config struct {
	URL    string // nats://host:4222 or tls://host:4222
	Stream string // of JetStream; it is not made
	// Subject is put before gateway.pipeline.sink.
	Subject string
	// CredentialsFile is a .creds file, TokenFile one with a token, User and PasswordFile a name and a file; at most one of the three.
	CredentialsFile string
	TokenFile       string
	User            string
	PasswordFile    string
	CAFile          string // PEM; empty: the system's
	Dates           certtime.Now
	DialTimeout     time.Duration
	DenyPrivate     bool // refuse addresses of this device and of private networks
	// Board is this device's serial: an equal incarnation of another board is refused (RULES 28).
	Board  string
	Logger *slog.Logger // nil: nothing is logged
}

// Default has the subject weir. Its dial timeout is that of a sender's request: a login with TLS goes to and fro five times, ten seconds of a satellite link
// that carries nothing else.
func Default() Config { return Config{Subject: "weir", DialTimeout: 30 * time.Second} }

// Validate names the first field that is out of range.
func (c *Config) Validate() error {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls":
		return fmt.Errorf("nats sink url is %q, want nats://host:4222 or tls://host:4222", c.URL)
	case u.User != nil:
		return errors.New("nats sink url holds a password; use credentials_file, token_file or password_file")
	case c.Stream == "" || strings.ContainsAny(c.Stream, ". *>/\\\t\r\n"):
		return fmt.Errorf("nats sink stream is %q, want a name without blanks and . * > / \\", c.Stream)
	case !validSubject(c.Subject):
		return fmt.Errorf("nats sink subject is %q, want words of A-Z a-z 0-9 _ - with dots between", c.Subject)
	case c.DialTimeout <= 0:
		return fmt.Errorf("nats sink dial timeout is %s, allowed is more than 0", c.DialTimeout)
	case (c.User == "") != (c.PasswordFile == ""):
		return errors.New("nats sink user and password_file go together")
	}
	ways := 0
	for _, file := range []string{c.CredentialsFile, c.TokenFile, c.PasswordFile} {
		if file != "" {
			ways++
		}
	}
	if ways > 1 {
		return errors.New("nats sink has at most one of credentials_file, token_file, password_file")
	}
	return nil
}

func validSubject(s string) bool {
	for _, word := range strings.Split(s, ".") {
		if word == "" || escape(word) != word {
			return false
		}
	}
	return true
}

// escape makes one word of a subject of any text.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "~%02X", c)
		}
	}
	return b.String()
}
