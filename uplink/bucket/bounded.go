//go:build !nos3

package bucket

import (
	"fmt"
	"io"
	"net/http"
)

const (
	// headerBytesMax is more than any store's answer has: a gateway has little memory, and the library's bound is 10 MiB.
	headerBytesMax = 256 << 10
	// beyondBytesMax is what an answer may have beyond the object that is asked for: an error in XML, a list in its tags. The client reads an error to its end.
	beyondBytesMax = 1 << 20
)

// bounded ends an answer that does not end: what a store sends for an error is read as long as it comes, and on a metered link until the time is up.
type bounded struct{ next http.RoundTripper }

// RoundTrip passes the request on.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	a, err := b.next.RoundTrip(r)
	if err != nil {
		return a, err
	}
	left := int64(beyondBytesMax)
	if a.StatusCode < http.StatusMultipleChoices {
		left += BytesMaxOf(r.Context())
	}
	a.Body = &boundedBody{a.Body, left}
	return a, nil
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the store's answer does not end: %w", ErrTooLarge)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
