// Package systemd tells the service manager that the agent is ready, and feeds its watchdog while the agent makes progress. It does
// nothing where there is no systemd.
package systemd

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// readyPoll is how often readiness is asked until it is there.
const readyPoll = 100 * time.Millisecond

// Run notifies READY=1 once ready returns nil, WATCHDOG=1 at a third of WatchdogSec while health returns nil, and STOPPING=1
// when ctx ends. An unhealthy agent is not fed: systemd restarts it.
func Run(ctx context.Context, ready, health func() error, log *slog.Logger) error {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("watchdog setting is unreadable; the watchdog is not fed", "error", err)
	}
	period := readyPoll
	notified := false
	for {
		if !notified && ready() == nil {
			notify(daemon.SdNotifyReady, log)
			notified = true
		}
		if every > 0 {
			if err := health(); err != nil {
				log.Error("no progress; the watchdog is not fed", "error", err)
			} else {
				notify(daemon.SdNotifyWatchdog, log)
			}
		}
		if notified {
			period = time.Minute
			if every > 0 {
				period = every / 3
			}
		}
		select {
		case <-ctx.Done():
			notify(daemon.SdNotifyStopping, log)
			return nil
		case <-time.After(period):
		}
	}
}

// Extend asks the service manager for more time: what it waits for, a start or a stop, goes on and is to end within so long or be extended again. Nothing is asked
// where there is no service manager.
func Extend(d time.Duration, log *slog.Logger) {
	notify(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()), log)
}

func notify(state string, log *slog.Logger) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		log.Warn("notify of the service manager failed", "state", state, "error", err)
	}
}
