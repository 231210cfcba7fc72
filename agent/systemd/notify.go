// Package systemd tells the service manager that the agent is ready, and feeds its watchdog while the agent makes progress. It does
// nothing where there is no systemd.
package systemd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// readyPoll is how often readiness is asked until it is there.
const readyPoll = 100 * time.Millisecond

// notifyMost is how long a notification may wait until the service manager takes it: one that is busy, or hangs, leaves its socket full. Nothing of the agent is to stand still for that, its
// stop least of all.
const notifyMost = time.Second

// Run notifies READY=1 once ready returns nil, WATCHDOG=1 at a third of WatchdogSec while health returns nil, and STOPPING=1
// when ctx ends. An unhealthy agent is not fed: systemd restarts it. What the manager does not take is sent again when it is due, READY at once.
func Run(ctx context.Context, ready, health func() error, log *slog.Logger) error {
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("watchdog setting is unreadable; the watchdog is not fed", "error", err)
	}
	period := readyPoll
	notified, deaf := false, false
	tell := func(state string) bool {
		err := notify(state)
		if err != nil && !deaf { // once, until it hears again: a log is not to be filled by it
			log.Warn("notify of the service manager failed", "state", state, "error", err)
		}
		deaf = err != nil
		return !deaf
	}
	for {
		if !notified && ready() == nil {
			notified = tell(daemon.SdNotifyReady)
		}
		if every > 0 {
			if err := health(); err != nil {
				log.Error("no progress; the watchdog is not fed", "error", err)
			} else {
				tell(daemon.SdNotifyWatchdog)
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
			tell(daemon.SdNotifyStopping)
			return nil
		case <-time.After(period):
		}
	}
}

// Extend asks the service manager for more time: what it waits for, a start or a stop, goes on and is to end within so long or be extended again. Nothing is asked
// where there is no service manager. One that does not take it is asked again by whoever still works; Run tells of it.
func Extend(d time.Duration) {
	_ = notify(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()))
}

// notify sends one datagram (sd_notify(3)), and does nothing where there is no manager. It waits for room in the socket for notifyMost.
func notify(state string) error {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	if err = conn.SetWriteDeadline(time.Now().Add(notifyMost)); err == nil {
		_, err = conn.Write([]byte(state))
	}
	return errors.Join(err, conn.Close())
}
