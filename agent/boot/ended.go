package boot

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Again tells that a program on trial has ended with an exit code, so that it must be started again whatever the code: the unit does not repeat some codes (RestartPreventExitStatus=), which a weir gives when nothing gets better by
// trying. Of a new program that is not believed: it gets its other starts, and then the old one runs. env gives what systemd tells ExecStopPost= (systemd.exec(5)).
func (p *Places) Again(env func(string) string) bool {
	if env("SERVICE_RESULT") == "success" || env("EXIT_CODE") != "exited" || env("EXIT_STATUS") == "0" {
		return false
	}
	b, err := p.Booted()
	return err == nil && b.Trial && b.Start == p.Start && p.Start != ""
}

// StartAgain becomes systemd-run, which has the unit started a moment after it has ended: a start that were asked for while the one that fails is still under way would be taken for that one, and fail with it. It returns only when
// that cannot be run.
func StartAgain(unit string) error {
	args := []string{"systemd-run", "--quiet", "--collect", "--on-active=500ms", "--timer-property=AccuracySec=100ms", "--", "systemctl", "--no-block", "start", "--", unit}
	return errors.Join(unix.Exec("/usr/bin/systemd-run", args, os.Environ()), unix.Exec("/bin/systemd-run", args, os.Environ()))
}
