package httpsink

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/weirstream/weir/pipeline/suggest"
	"github.com/weirstream/weir/uplink/wire"
)

// What an operator reads: what happened, at which address, what to do.

// said names the address that an answer came from.
func (s *Sink) said(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", s.url.Redacted(), err)
}

// errNoReceiver is an answer that follows another protocol, or none.
var errNoReceiver = errors.New("it is no receiver of weir's protocol, or something between here and there answers for it; for other servers set protocol: plain")

// parse reads where what should be a receiver stands. Each of its answers that tells so names an incarnation; JSON without one ({"status":"ok"}) is
// somebody else's, and would read as a receiver that holds nothing.
func parse(body []byte) (wire.Answer, error) {
	a, err := wire.ParseAnswer(body)
	if err == nil {
		if _, err = wire.ParseIncarnation(a.Incarnation); err != nil {
			err = fmt.Errorf("answer %.80q: %w", body, err)
		}
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", err, errNoReceiver)
	}
	return a, err
}

// bare takes the verb and the address off, which are told already.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// remedy tells what to do about a request that got no answer, "" when waiting is all.
func remedy(err error) string {
	if strings.Contains(err.Error(), "HTTP response to HTTPS client") { // the library has no type for it
		return "; the server speaks no TLS: is it the right port?"
	}
	return suggest.Certificate(err, "give its CA in ca")
}

// advice tells what to do about a status.
func advice(status int) string {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return "; see token_file (it is read again) and what it may do there"
	case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone:
		return "; is that the path of a receiver?"
	case http.StatusInsufficientStorage:
		return "; the upstream is full: it waits"
	}
	return ""
}
