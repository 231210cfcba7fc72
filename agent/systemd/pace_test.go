package systemd

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestPace: kill -9 now and then costs nothing; a service that dies at each start is started more and more rarely, and never given up.
func TestPace(t *testing.T) {
	var s starts
	var wait time.Duration
	now := time.Hour
	var waits []time.Duration
	for range 14 { // each run dies after a second
		s, wait = s.next(now)
		waits = append(waits, wait)
		s.last = now + wait
		now = s.last + time.Second
	}
	want := []time.Duration{0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60}
	for i := range want {
		if waits[i] != want[i]*time.Second {
			t.Fatalf("waits %v, want %v", waits, want)
		}
	}
	now = s.last + lasted // this one lasted
	if s, wait = s.next(now); wait != 0 || s.inRow != 0 {
		t.Errorf("behind a run that lasted: %v, %d in a row", wait, s.inRow)
	}
	s.last = now
	if _, wait = s.next(now - time.Minute); wait != 0 {
		t.Error("a boot did not forget")
	}
	huge := starts{inRow: 1 << 30, last: now}
	if _, wait = huge.next(now + 1); wait != waitMost {
		t.Errorf("after very many: %v", wait)
	}
}

// TestPaceIsRemembered over processes, in the runtime directory alone, and forgotten behind a stop that was asked for.
func TestPaceIsRemembered(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("RUNTIME_DIRECTORY", dir)
	t.Setenv("NOTIFY_SOCKET", "")
	log := slog.New(slog.DiscardHandler)
	for n := range startsFree + 1 {
		if err := Pace(t.Context(), log); err != nil {
			t.Fatal(err)
		}
		if s := readStarts(filepath.Join(dir, "starts")); s.inRow != n || s.last == 0 {
			t.Fatalf("start %d is noted as %+v", n, s)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := Pace(stopped, log); !errors.Is(err, context.Canceled) {
		t.Errorf("a stop while it waits: %v", err)
	}
	Lasted()
	if err := Pace(stopped, log); err != nil { // would have waited
		t.Errorf("behind a stop that was asked for: %v", err)
	}
	for _, odd := range []string{"", "x", "1", "-1 5", "99999999999999999999 1"} {
		if err := os.WriteFile(filepath.Join(dir, "starts"), []byte(odd), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := Pace(t.Context(), log); err != nil {
			t.Errorf("%q: %v", odd, err)
		}
	}
}
