package boards

import (
	"strings"
	"testing"
)

// TestMemoryLimit: of board, cgroup and machine the smallest counts; without a board it is as it was before there were boards.
func TestMemoryLimit(t *testing.T) {
	pi := &Profile{ID: "rpi4", Limits: Limits{GOMEMLIMIT: 96 << 20, High: Memory{Bytes: 112 << 20}, Max: Memory{Bytes: 160 << 20}}}
	const gib = 1 << 30
	for i, c := range []struct {
		p    *Profile
		f    Facts
		want int64
		why  string
	}{
		{nil, Facts{}, 0, "nothing tells"},
		{nil, Facts{RAM: 512 << 20}, share(256 << 20), "70 % of half of the machine"},
		{nil, Facts{RAM: 512 << 20, CgroupMax: 128 << 20, CgroupHigh: 96 << 20}, share(96 << 20), "memory.high"},
		{&Profile{ID: "generic-arm64"}, Facts{RAM: gib, CgroupMax: 128 << 20}, share(128 << 20), "memory.max"},
		{pi, Facts{}, 96 << 20, "board rpi4"},
		{pi, Facts{RAM: 4 * gib}, 96 << 20, "board rpi4"},
		{pi, Facts{RAM: 4 * gib, CgroupHigh: 112 << 20, CgroupMax: 160 << 20}, 96 << 20, "board rpi4"}, // its own unit
		{pi, Facts{RAM: 4 * gib, CgroupHigh: 80 << 20, CgroupMax: 160 << 20}, share(80 << 20), "memory.high"},
		{pi, Facts{RAM: 4 * gib, CgroupMax: 64 << 20}, share(64 << 20), "memory.max"},
		{pi, Facts{RAM: 4 * gib, CgroupMax: 158 << 20}, 96 << 20, "board rpi4"}, // 70 % of it is more
		{pi, Facts{RAM: 200 << 20}, share(100 << 20), "half of the machine"},
	} {
		got, why := MemoryLimit(c.p, c.f)
		if got != c.want || !strings.Contains(why, c.why) {
			t.Errorf("case %d: %d, %s; want %d, %s", i, got, why, c.want, c.why)
		}
	}
}

func share(n int64) int64 { return int64(float64(n) * memoryShare) }

func TestDropIn(t *testing.T) {
	p := &Profile{ID: "x", Name: "X", Limits: Limits{GOMEMLIMIT: 96 << 20, High: Memory{Bytes: 112 << 20}, Max: Memory{Bytes: 160 << 20}, Tasks: 128},
		Watchdog: Watchdog{Dev: "/dev/watchdog0", Driver: "d", MaxS: 15, ServiceS: 60}, LEDs: LEDs{Status: "ACT"}}
	text := DropIn(p, Facts{})
	for _, want := range []string{"[Service]\n", "MemoryHigh=112M\n", "MemoryMax=160M\n", "TasksMax=128\n", "WatchdogSec=60\n", "DevicePolicy=closed\n", "ReadWritePaths=-/sys/class/leds/ACT\n", "RuntimeWatchdogSec=10 "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	g := &Profile{ID: "generic-arm64", Limits: Limits{High: Memory{Percent: 12}, Max: Memory{Percent: 17}, Tasks: 128}}
	for ram, want := range map[int64]string{0: "MemoryHigh=12%\nMemoryMax=17%", 4 << 30: "MemoryHigh=491M\nMemoryMax=696M", 256 << 20: "MemoryHigh=76M\nMemoryMax=106M"} {
		if text := DropIn(g, Facts{RAM: ram}); !strings.Contains(text, want) {
			t.Errorf("%d bytes: no %q in\n%s", ram, want, text)
		}
	}
}
