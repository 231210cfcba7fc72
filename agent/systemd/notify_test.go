package systemd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
)

// manager is a service manager's socket.
func manager(t *testing.T) *net.UnixConn {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "n"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	t.Setenv("NOTIFY_SOCKET", c.LocalAddr().String())
	return c
}

// next is the next notification, "" when none comes in the time.
func next(t *testing.T, c *net.UnixConn, wait time.Duration) string {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 256)
	n, err := c.Read(b)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ""
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

// TestNotifications: ready once it is, the watchdog while it is well and not otherwise, stopping at the end.
func TestNotifications(t *testing.T) {
	c := manager(t)
	t.Setenv("WATCHDOG_USEC", "90000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	var ready, sick atomic.Bool
	no := errors.New("no")
	state := func(bad bool) error {
		if bad {
			return no
		}
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, func() error { return state(!ready.Load()) }, func() error { return state(sick.Load()) }, slog.New(slog.DiscardHandler))
	}()
	if got := next(t, c, 5*time.Second); got != "WATCHDOG=1" {
		t.Errorf("before it is ready: %q", got)
	}
	ready.Store(true)
	for seen := false; !seen; {
		switch got := next(t, c, 5*time.Second); got {
		case "READY=1":
			seen = true
		case "WATCHDOG=1":
		default:
			t.Fatalf("%q while it becomes ready", got)
		}
	}
	if got := next(t, c, 5*time.Second); got != "WATCHDOG=1" {
		t.Errorf("behind READY: %q", got)
	}
	sick.Store(true)
	for next(t, c, 200*time.Millisecond) != "" { // one may be under way
	}
	if got := next(t, c, 300*time.Millisecond); got != "" {
		t.Errorf("unhealthy and fed: %q", got)
	}
	stop()
	if got := next(t, c, 5*time.Second); got != "STOPPING=1" {
		t.Errorf("at the end: %q", got)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
