package boards

import (
	"fmt"
	"strings"
)

const (
	// highLeast and maxLeast are the least limits that a share of the memory is taken for: 64 MiB of GOMEMLIMIT, which is 0.85 of MemoryHigh; MemoryMax is 1.4 times that.
	highLeast = 76 << 20
	maxLeast  = 106 << 20
	// runtimeMostS bounds RuntimeWatchdogSec, of which the manager feeds the watchdog at a half.
	runtimeMostS = 60
)

// DropIn is pure: a drop-in for weir.service with what the board needs. f is the machine that the service runs on; of another one it is empty, and shares of the
// memory stay shares.
func DropIn(p *Profile, f Facts) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("# Board %s: %s. Made by `weir boards unit %s`.", p.ID, p.Name, p.ID)
	line("# Put it into /etc/systemd/system/weir.service.d/board.conf, then: systemctl daemon-reload && systemctl restart weir")
	line("[Service]")
	if p.Limits.GOMEMLIMIT > 0 {
		line("# weir sets GOMEMLIMIT=%dMiB itself; Environment=GOMEMLIMIT=… overrides it.", p.Limits.GOMEMLIMIT>>20)
	}
	memory := func(key string, m Memory, least int64) {
		if text := m.unit(f.RAM, least); text != "" {
			line("%s=%s", key, text)
		}
	}
	memory("MemoryHigh", p.Limits.High, highLeast)
	memory("MemoryMax", p.Limits.Max, maxLeast)
	if p.Limits.Tasks > 0 {
		line("TasksMax=%d", p.Limits.Tasks)
	}
	if p.Watchdog.ServiceS > 0 {
		line("WatchdogSec=%d", p.Watchdog.ServiceS)
	}
	line("# weir opens no device file: wear and bytes written are read in /sys.")
	line("DevicePolicy=closed")
	for _, led := range []string{p.LEDs.Status, p.LEDs.Alarm} {
		if led != "" {
			dir := "/sys/class/leds/" + led
			line("# LED %s: its files belong to root, and the unit has /sys read-only.", led)
			line("ReadWritePaths=-%s", dir)
			line("ExecStartPre=-+/bin/sh -c 'cd %s && chgrp weir brightness trigger && chmod g+w brightness trigger'", dir)
		}
	}
	if w := p.Watchdog; w.MaxS > 0 {
		line("# A kernel that hangs: RuntimeWatchdogSec=%d in /etc/systemd/system.conf (%s, %s: %d s at most).", min(w.MaxS*2/3, runtimeMostS), w.Dev, w.Driver, w.MaxS)
	}
	return b.String()
}

// unit writes a limit as systemd reads it (systemd.resource-control(5)); "": none.
func (m Memory) unit(ram, least int64) string {
	switch {
	case m.Percent > 0 && ram > 0:
		return fmt.Sprintf("%dM", max(ram/100*int64(m.Percent), least)>>20)
	case m.Percent > 0:
		return fmt.Sprintf("%d%%", m.Percent)
	case m.Bytes > 0:
		return fmt.Sprintf("%dM", m.Bytes>>20)
	}
	return ""
}
