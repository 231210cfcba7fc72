package nats

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/weirstream/weir/uplink/uplinktest"
)

// TestOpenEndsWithItsContext: a server that accepts and says nothing holds neither a shutdown nor the sender's timeout.
func TestOpenEndsWithItsContext(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	c := Default()
	c.URL, c.Stream, c.DialTimeout = "nats://"+silent.Addr().String(), testStream, time.Hour
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Open(ctx, uplinktest.Stream(), one, 1); err == nil { // else the test runs into its own limit
		t.Fatal("a silent server was opened")
	}
}
