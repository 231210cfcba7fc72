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

// marked is what mark puts behind the notifications that are there.
const marked = "MARK"

func mark(t *testing.T, c *net.UnixConn) {
	t.Helper()
	to, err := net.Dial("unixgram", c.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := to.Write([]byte(marked)); err != nil {
		t.Fatal(err)
	}
}

// TestNotifications: ready once it is, the watchdog while it is well and not otherwise, stopping at the end.
func TestNotifications(t *testing.T) {
	c := manager(t)
	t.Setenv("WATCHDOG_USEC", "90000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	var ready, sick atomic.Bool
	var refused atomic.Int64 // times that it said it was not well
	no := errors.New("no")
	state := func(bad bool) error {
		if bad {
			return no
		}
		return nil
	}
	healthy := func() error {
		err := state(sick.Load())
		if err != nil {
			refused.Add(1)
		}
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, func() error { return state(!ready.Load()) }, healthy, slog.New(slog.DiscardHandler))
	}()
	if got := next(t, c, time.Minute); got != "WATCHDOG=1" {
		t.Errorf("before it is ready: %q", got)
	}
	ready.Store(true)
	for seen := false; !seen; {
		switch got := next(t, c, time.Minute); got {
		case "READY=1":
			seen = true
		case "WATCHDOG=1":
		default:
			t.Fatalf("%q while it becomes ready", got)
		}
	}
	if got := next(t, c, time.Minute); got != "WATCHDOG=1" {
		t.Errorf("behind READY: %q", got)
	}
	sick.Store(true)
	awaitRefusals := func(n int64) {
		for deadline := time.Now().Add(time.Minute); refused.Load() < n; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("it is not asked whether it is well")
			}
		}
	}
	awaitRefusals(1)
	mark(t, c)
	for next(t, c, time.Minute) != marked { // those of before are in the socket by now
	}
	awaitRefusals(refused.Load() + 3)
	mark(t, c)
	if got := next(t, c, time.Minute); got != marked {
		t.Errorf("unhealthy and fed: %q", got)
	}
	stop()
	if got := next(t, c, time.Minute); got != "STOPPING=1" {
		t.Errorf("at the end: %q", got)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}
