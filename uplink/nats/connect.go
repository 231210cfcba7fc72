package nats

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/weirstream/weir/pipeline/suggest"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/credentials"
)

// connect makes a connection unless there is one, and gives up when ctx ends. The library never reconnects by itself: what it would send then
// nobody knows.
func (s *Sink) connect(ctx context.Context) error {
	if s.conn != nil && s.conn.IsConnected() {
		return nil
	}
	s.drop()
	dialer := &net.Dialer{Timeout: s.config.DialTimeout, KeepAlive: 30 * time.Second}
	if s.config.DenyPrivate {
		dialer.Control = uplink.DenyPrivate
	}
	dial := dialing{ctx: ctx, dialer: dialer}
	defer dial.made()
	o := []nats.Option{nats.Name("weir"), nats.Timeout(s.config.DialTimeout), nats.NoReconnect(), nats.SetCustomDialer(&dial), nats.IgnoreDiscoveredServers(),
		// What goes wrong shows at the next request; the library would print it.
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}
	secure, err := s.tls()
	if err != nil {
		return err
	}
	o = append(o, secure)
	switch {
	case s.config.CredentialsFile != "":
		o = append(o, nats.UserCredentials(s.config.CredentialsFile))
	case s.config.TokenFile != "":
		token, err := credentials.Secret(s.config.TokenFile)
		if err != nil {
			return fmt.Errorf("nats token: %w", err)
		}
		o = append(o, nats.Token(token))
	case s.config.PasswordFile != "":
		password, err := credentials.Secret(s.config.PasswordFile)
		if err != nil {
			return fmt.Errorf("nats password: %w", err)
		}
		o = append(o, nats.UserInfo(s.config.User, password))
	}
	conn, err := nats.Connect(s.config.URL, o...)
	if err != nil {
		return fmt.Errorf("connect to %s: %w%s", s.config.URL, err, remedy(err))
	}
	s.conn = conn
	return nil
}

// tls is how certificates are judged, where the URL or the server demands TLS. A CA demands it as well.
func (s *Sink) tls() (nats.Option, error) {
	u, err := url.Parse(s.config.URL)
	if err != nil {
		return nil, fmt.Errorf("parse nats url: %w", err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.config.CAFile != "" {
		pem, err := os.ReadFile(s.config.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read nats ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read nats ca %s: no certificate in it", s.config.CAFile)
		}
	}
	s.config.Dates.Judge(c, u.Hostname())
	return func(o *nats.Options) error {
		o.TLSConfig = c
		o.Secure = o.Secure || s.config.CAFile != ""
		return nil
	}, nil
}

// remedy tells what to do about a server that does not let the sink in, "" when waiting is all.
func remedy(err error) string {
	switch {
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked):
		return "; see credentials_file, token_file, or user and password_file: they are read again at each try"
	case errors.Is(err, nats.ErrSecureConnWanted):
		return "; the server speaks no TLS: is it the right port?"
	case strings.Contains(strings.ToLower(err.Error()), "authentication timeout"):
		return "; the server waits too short a time for a login over this link (2 s by default): raise authorization.timeout and tls.timeout there"
	}
	return suggest.Certificate(err, "give its CA in ca")
}

// dialing makes the library's connection; what it says and waits for before it is ready ends with ctx as well, which the library knows nothing of.
type dialing struct {
	ctx    context.Context // of one call of connect
	dialer *net.Dialer
	stop   func() bool
}

func (d *dialing) Dial(network, address string) (net.Conn, error) {
	conn, err := d.dialer.DialContext(d.ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.stop = context.AfterFunc(d.ctx, func() { _ = conn.Close() })
	return conn, nil
}

// made lets the connection live on when ctx ends.
func (d *dialing) made() {
	if d.stop != nil {
		d.stop()
	}
}

func (s *Sink) drop() {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
}

// apiError is an error as JetStream writes it.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.ErrCode) }

// Numbers of JetStream's errors.
const (
	codeNoMessage     = 10037
	codeNoStream      = 10059
	codeStoreFailed   = 10077
	codeNoMemory      = 10023
	codeNoStorage     = 10047
	codeTooLarge      = 10054
	codeIncomplete    = 10176
	codeWrongLast     = 10071
	codeWrongLastSame = 10164
)

var errMoved = errors.New("the subject's last message is not the expected one")

// ask sends a request and decodes its answer into to, which has an error member that apiErr points to.
func (s *Sink) ask(ctx context.Context, conn *nats.Conn, m *nats.Msg, to any, apiErr **apiError) error {
	if conn == nil {
		return nats.ErrConnectionClosed
	}
	answer, err := conn.RequestMsgWithContext(ctx, m)
	switch {
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", uplink.ErrTooLarge, err)
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("ask %s at %s: %w: JetStream is off there (as when its disk is full), or no stream takes the subject; see the subjects of stream %s", m.Subject, s.config.URL, err, s.config.Stream)
	case err != nil:
		// Without an answer in time the connection may be dead: only the library's pings would find out, in four to six minutes.
		if s.conn == conn {
			s.drop()
		}
		return fmt.Errorf("ask %s at %s: no answer: %w; one whose disk is full gives none", m.Subject, s.config.URL, err)
	}
	if err := json.Unmarshal(answer.Data, to); err != nil {
		return fmt.Errorf("ask %s at %s: the answer is not JetStream's: %.80q: %w", m.Subject, s.config.URL, answer.Data, err)
	}
	if e := *apiErr; e != nil {
		switch e.ErrCode {
		case codeWrongLast, codeWrongLastSame:
			return errMoved
		case codeTooLarge, codeIncomplete: // incomplete: one in the middle was refused, and only the last is answered. Alone it is named.
			return fmt.Errorf("%w: %w", uplink.ErrTooLarge, e)
		}
		return fmt.Errorf("ask %s at %s: %w%s", m.Subject, s.config.URL, e, s.advice(e))
	}
	return nil
}

// advice tells what to do about JetStream's refusal, "" when waiting is all.
func (s *Sink) advice(e *apiError) string {
	switch e.ErrCode {
	case codeNoStream:
		return fmt.Sprintf("; the sink does not make it: make it there, for the subjects %s.>", s.config.Subject)
	case codeStoreFailed:
		return fmt.Sprintf("; see max_bytes and max_msgs of stream %s, and the disk of its server", s.config.Stream)
	case codeNoMemory, codeNoStorage:
		return "; make room in JetStream there, or raise its max_file_store"
	}
	return ""
}

// inspect learns how the stream is set up, and refuses one that would forget the progress.
func (s *Sink) inspect(ctx context.Context) error {
	var info struct {
		Error  *apiError `json:"error"`
		Config struct {
			Name      string        `json:"name"`
			Retention string        `json:"retention"`
			MaxAge    time.Duration `json:"max_age"`
			Atomic    bool          `json:"allow_atomic"`
			Sealed    bool          `json:"sealed"`
		} `json:"config"`
	}
	if err := s.ask(ctx, s.conn, &nats.Msg{Subject: "$JS.API.STREAM.INFO." + s.config.Stream}, &info, &info.Error); err != nil {
		return fmt.Errorf("look at stream %s: %w", s.config.Stream, err)
	}
	c := &info.Config
	switch {
	case c.Name != s.config.Stream:
		return fmt.Errorf("look at stream %s: the answer is of %.40q", s.config.Stream, c.Name)
	case c.Retention != "limits":
		return fmt.Errorf("stream %s has retention %s: its consumers remove the progress; allowed is limits", s.config.Stream, c.Retention)
	case c.Sealed:
		return fmt.Errorf("stream %s is sealed", s.config.Stream)
	}
	if c.MaxAge > 0 && !s.warned {
		s.config.Logger.Warn("nats stream forgets: an outage longer than its max_age loses the progress", "jetstream", s.config.Stream, "max_age", c.MaxAge)
		s.warned = true
	}
	s.atomic = c.Atomic
	return nil
}

// readBack gives the state that the subject's last message tells; its zero value when there is none.
func (s *Sink) readBack(ctx context.Context) (state, error) {
	question, err := json.Marshal(map[string]string{"last_by_subj": s.subject})
	if err != nil {
		return state{}, fmt.Errorf("read back %s: %w", s.subject, err)
	}
	var answer struct {
		Error   *apiError `json:"error"`
		Message *struct {
			Seq    uint64 `json:"seq"`
			Header []byte `json:"hdrs"`
		} `json:"message"`
	}
	err = s.ask(ctx, s.conn, &nats.Msg{Subject: "$JS.API.STREAM.MSG.GET." + s.config.Stream, Data: question}, &answer, &answer.Error)
	if answer.Error != nil && answer.Error.ErrCode == codeNoMessage {
		return state{}, nil
	}
	if err == nil && answer.Message == nil {
		err = errors.New("the answer has no message")
	}
	if err != nil {
		return state{}, fmt.Errorf("read back %s: %w", s.subject, err)
	}
	h, err := nats.DecodeHeadersMsg(answer.Message.Header)
	if err != nil {
		return state{}, fmt.Errorf("%w, at stream sequence %d: %w", ErrForeign, answer.Message.Seq, err)
	}
	return readState(h, answer.Message.Seq)
}
