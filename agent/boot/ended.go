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

// Ended is how a program on trial was ended by the machine, not by itself: /run/weir-boot/ended, until a start that is no trial.
type Ended struct {
	SHA256 string `json:"sha256"`
	How    string `json:"how"`
}

// machineEnds are the results of a service that speak of no exit and of no operator (systemd.exec(5), SERVICE_RESULT).
var machineEnds = map[string]string{
	"watchdog": "it stood still, and the service manager's watchdog ended it",
	"oom-kill": "memory ran out, and the kernel ended it",
}

// Note keeps, for the next start, that the machine has ended a program on trial. The agent judges by it: a try is used up either way.
func (p *Places) Note(env func(string) string) error {
	how, told := machineEnds[env("SERVICE_RESULT")]
	if !told {
		return nil
	}
	b, err := p.Booted()
	if err != nil || !b.Trial || b.Start != p.Start || p.Start == "" {
		return err
	}
	return p.note(endedFile, Ended{SHA256: b.SHA256, How: how})
}

// StartAgain becomes systemd-run, which has the unit started a moment after it has ended: a start that were asked for while the one that fails is still under way would be taken for that one, and fail with it. It returns only when
// that cannot be run.
func StartAgain(unit string) error {
	args := []string{"systemd-run", "--quiet", "--collect", "--on-active=500ms", "--timer-property=AccuracySec=100ms", "--", "systemctl", "--no-block", "start", "--", unit}
	return errors.Join(unix.Exec("/usr/bin/systemd-run", args, os.Environ()), unix.Exec("/bin/systemd-run", args, os.Environ()))
}
