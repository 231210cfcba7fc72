package led

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fake makes LEDs in a directory.
func fake(t *testing.T, triggers string, names ...string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for _, name := range names {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"trigger": triggers, "brightness": "7\n", "max_brightness": "255\n"} {
			if err := os.WriteFile(filepath.Join(dir, name, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

func shows(t *testing.T, dir, name string) string {
	t.Helper()
	var text []string
	for _, file := range []string{"trigger", "brightness"} {
		b, err := os.ReadFile(filepath.Join(dir, name, file))
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, strings.TrimSpace(string(b)))
	}
	return strings.Join(text, " ")
}

const kernel = "none rc-feedback [mmc0] timer oneshot heartbeat default-on\n"

func TestStates(t *testing.T) {
	has := strings.Fields("none timer heartbeat")
	for i, c := range []struct {
		s             State
		has           []string
		status, alarm Light
	}{
		{Running, has, Light{"none", true}, Light{"none", false}},
		{Degraded, has, Light{"timer", false}, Light{"none", true}},
		{Fenced, has, Light{"heartbeat", false}, Light{"none", true}},
		{Stopped, has, Light{"none", false}, Light{"none", false}},
		{Degraded, nil, Light{"none", false}, Light{"none", true}},
		{Fenced, []string{"timer"}, Light{"timer", false}, Light{"none", true}},
	} {
		if s, a := Status(c.s, c.has), Alarm(c.s); s != c.status || a != c.alarm {
			t.Errorf("case %d: %+v, %+v", i, s, a)
		}
	}
}

// TestLampsFollowTheState: in a directory as sysfs has it; a state that stays is written once.
func TestLampsFollowTheState(t *testing.T) {
	dir := fake(t, kernel, "ACT", "PWR")
	l := &Lamps{Dir: dir, Status: "ACT", Alarm: "PWR", Log: slog.New(slog.DiscardHandler)}
	for _, c := range []struct {
		s             State
		status, alarm string
	}{{Running, "none 255", "none 0"}, {Degraded, "timer 255", "none 255"}, {Stopped, "none 0", "none 0"}} {
		if err := os.WriteFile(filepath.Join(dir, "ACT", "trigger"), []byte(kernel), 0o644); err != nil {
			t.Fatal(err)
		}
		l.show(c.s)
		if s, a := shows(t, dir, "ACT"), shows(t, dir, "PWR"); s != c.status || a != c.alarm {
			t.Errorf("state %d: %q, %q", c.s, s, a)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "ACT", "trigger"), []byte("by hand"), 0o644); err != nil {
		t.Fatal(err)
	}
	l.show(Stopped)
	if s := shows(t, dir, "ACT"); s != "by hand 0" {
		t.Errorf("a state that stays is written again: %q", s)
	}
}

// TestOneWarning: LEDs that are not there are told once, however often the state changes, and the agent goes on.
func TestOneWarning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		l := &Lamps{Dir: t.TempDir(), Status: "ACT", Alarm: "PWR", Log: slog.New(slog.NewTextHandler(&log, nil))}
		ctx, stop := context.WithCancel(t.Context())
		done, asked := make(chan error, 1), 0
		go func() {
			done <- l.Run(ctx, func() State { asked++; return State(asked % 3) })
		}()
		time.Sleep(10 * Every)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := strings.Count(log.String(), "a LED cannot be lit"); n != 1 || asked < 10 {
			t.Errorf("told %d times, asked %d times\n%s", n, asked, log.String())
		}
	})
}

// TestNoLED: nobody is asked.
func TestNoLED(t *testing.T) {
	if err := (&Lamps{}).Run(t.Context(), func() State { t.Error("asked"); return Running }); err != nil {
		t.Error(err)
	}
}
