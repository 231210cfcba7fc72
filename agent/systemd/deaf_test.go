package systemd

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const filler = "FILLER"

// fill leaves no room in a datagram socket, as somebody who hangs does.
func fill(t *testing.T, socket string) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for err == nil {
		err = unix.Sendto(fd, []byte(filler), 0, &unix.SockaddrUnix{Name: socket})
	}
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
}

// unfilled is the first datagram that is no filler.
func unfilled(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	for {
		if got := next(t, c, time.Minute); got != filler {
			return got
		}
	}
}

// ended waits until something has ended.
func ended(t *testing.T, what string, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal(what + " does not end")
	}
}

// TestManagerThatHangs: nothing waits for a service manager that reads nothing, neither a start, nor a restore, nor a stop; it is told once, and READY comes when it reads again.
func TestManagerThatHangs(t *testing.T) {
	c := manager(t)
	t.Setenv("RUNTIME_DIRECTORY", t.TempDir())
	t.Setenv("WATCHDOG_USEC", "90000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(unix.Getpid()))
	fill(t, c.LocalAddr().String())
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	step := make(chan error, 1)
	go func() { Extend(time.Second); step <- Pace(t.Context(), log) }()
	ended(t, "a start", step)

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	done, asked := make(chan error, 1), make(chan struct{})
	looks := 0
	healthy := func() error { // behind each READY that was not taken
		if looks++; looks == 3 {
			close(asked)
		}
		return nil
	}
	go func() { done <- Run(ctx, func() error { return nil }, healthy, log) }()
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Fatal("it stands still for the manager")
	}
	for {
		got := unfilled(t, c)
		if got == "READY=1" {
			break
		}
		if got != "WATCHDOG=1" {
			t.Fatalf("%q", got)
		}
	}
	fill(t, c.LocalAddr().String())
	stop()
	ended(t, "a stop", done)
	if n := strings.Count(text.String(), "notify of the service manager failed"); n == 0 || n > 2 {
		t.Errorf("it is told %d times:\n%s", n, text.String())
	}
}

// TestJournalThatHangs: who logs does not wait for a journal that reads nothing; what was lost is told when it reads again.
func TestJournalThatHangs(t *testing.T) {
	j, name := newJournald(t)
	var text bytes.Buffer
	h, err := NewJournal(name, slog.LevelInfo, slog.NewTextHandler(&text, nil))
	if err != nil {
		t.Fatal(err)
	}
	fill(t, name)
	log := slog.New(h)
	const lines = 5
	done := make(chan error, 1)
	go func() {
		for n := range lines {
			log.Info("while it hangs", "n", n, "stack", strings.Repeat("x\n", 200_000*(n%2))) // every other one in a file
		}
		done <- nil
	}()
	ended(t, "a log line", done)
	if text.Len() > 0 {
		t.Errorf("what is written to the same journal by another way would wait there: %q", text.String())
	}
	for { // what filled it
		b := make([]byte, 64)
		j.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		if _, err := j.Read(b); err != nil {
			break
		}
	}
	log.Info("goes on")
	if f, _ := j.next(t); f["EVENT"] != "goes on" {
		t.Errorf("%v", f)
	}
	if f, _ := j.next(t); f["EVENT"] != lostText || f["N"] != strconv.Itoa(lines) || f["PRIORITY"] != "4" || f["MESSAGE"] != lostText+" n="+strconv.Itoa(lines) {
		t.Errorf("%v", f)
	}
	log.Info("and on")
	if f, _ := j.next(t); f["EVENT"] != "and on" {
		t.Errorf("told again: %v", f)
	}
}
