package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/led"
	"github.com/weirstream/weir/boards"
)

// leds makes a directory like /sys/class/leds.
func leds(t *testing.T, names ...string) (dir string, shows func(name string) string) {
	t.Helper()
	dir = t.TempDir()
	put := func(name, file, text string) {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		put(name, "trigger", "none [mmc0] timer heartbeat\n")
		put(name, "brightness", "0\n")
		put(name, "max_brightness", "1\n")
	}
	return dir, func(name string) string {
		trigger, _ := os.ReadFile(filepath.Join(dir, name, "trigger"))
		brightness, _ := os.ReadFile(filepath.Join(dir, name, "brightness"))
		return strings.TrimSpace(string(trigger)) + " " + strings.TrimSpace(string(brightness))
	}
}

// TestAgentOnABoard: every config of the agent has the board's defaults, the file's and the applied one; the LED is lit while it works and dark behind it.
func TestAgentOnABoard(t *testing.T) {
	b := newApplyBench(t)
	b.text = strings.Replace(b.text, "linger: 0s", "max_unsynced: 8MiB", 1)
	dir, shows := leds(t, "ACT", "PWR")
	b.options.Machine, b.options.leds = &boards.Facts{Machine: "aarch64", Compatible: []string{"raspberrypi,4-model-b", "brcm,bcm2711"}}, dir
	b.start()
	b.put(1, 20)
	b.await("delivery", at(20))
	onBoard := func(when string, cfg *config.Config) {
		t.Helper()
		if cfg.On.ID != "rpi4" || cfg.Journal.Linger != 20*time.Millisecond {
			t.Errorf("%s: board %q, linger %v", when, cfg.On.ID, cfg.Journal.Linger)
		}
	}
	onBoard("at the start", b.agent.roster.Load().config)
	b.await("the status LED", func(*api.Status) bool { return shows("ACT") == "none 1" && shows("PWR") == "none 0" })
	if out, _ := b.apply(b.text, api.ApplyOptions{}); out.Result != api.ApplyUnchanged {
		t.Errorf("the same config: %+v", out)
	}
	b.wantApplied(withEvens(b.text, b.url))
	onBoard("applied", b.agent.roster.Load().config)
	b.halt()
	if got := shows("ACT"); got != "none 0" {
		t.Errorf("behind the end the LED shows %q", got)
	}
	b.start() // the kept config runs: the file is as it was
	onBoard("kept", b.agent.roster.Load().config)
	b.await("running", settled)
	b.halt()
}

// TestShownState: what needs an operator is not well, and a fence is more than that.
func TestShownState(t *testing.T) {
	var s api.Status
	for _, c := range []struct {
		change func()
		want   led.State
	}{
		{func() {}, led.Running},
		{func() { s.Journal.Full = true; s.Problems = problems(&s) }, led.Degraded},
		{func() { s.Identity.Fenced = "another"; s.Problems = problems(&s) }, led.Fenced},
	} {
		c.change()
		if got := stateOf(&s); got != c.want {
			t.Errorf("%+v: %d, want %d", s.Problems, got, c.want)
		}
	}
}
