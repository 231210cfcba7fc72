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

// StartAgain becomes systemctl, which asks for a start of the unit that is about to end, and waits for nothing. It returns only when that cannot be run.
func StartAgain(unit string) error {
	var wrong error
	for _, systemctl := range []string{"/usr/bin/systemctl", "/bin/systemctl"} {
		wrong = errors.Join(wrong, unix.Exec(systemctl, []string{"systemctl", "--no-block", "start", "--", unit}, os.Environ()))
	}
	return wrong
}
