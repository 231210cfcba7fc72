//go:build !nos3

package bucket

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"
)

// skew looks at the Date of each answer: a signature holds for 15 minutes only, and a store that refuses one for its date seldom says so
// in words that lead to the clock.
type skew struct {
	next http.RoundTripper
	by   atomic.Int64 // nanoseconds: this device's clock less the store's, at the last answer that had a date
	seen atomic.Bool
}

// skewMax is how far the clocks may differ: S3 allows 15 minutes, an answer may be under way for some time.
const skewMax = 5 * time.Minute

// RoundTrip passes the request on.
func (s *skew) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := s.next.RoundTrip(r)
	if err != nil {
		return a, err
	}
	if at, err := http.ParseTime(a.Header.Get("Date")); err == nil {
		s.by.Store(int64(time.Now().Round(0).Sub(at)))
		s.seen.Store(true)
	}
	return a, nil
}

// refuses says whether an answer is that of a store to which this device's clock is wrong.
func (s *skew) refuses(code string, status int) bool {
	switch code {
	case "RequestTimeTooSkewed", "RequestExpired", "RequestInTheFuture":
		return true
	}
	by := time.Duration(s.by.Load())
	return (status == http.StatusForbidden || status == http.StatusUnauthorized || status == http.StatusBadRequest) && s.seen.Load() && by.Abs() > skewMax
}

// String says by how much the clocks differ, and which way.
func (s *skew) String() string {
	by := time.Duration(s.by.Load()).Round(time.Second)
	switch {
	case !s.seen.Load():
		return "the store does not say what it has"
	case by < 0:
		return fmt.Sprintf("it is %s behind", -by)
	}
	return fmt.Sprintf("it is %s ahead", by)
}
