package boot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/agent/upgrade"
)

// ErrNoReboot comes for a request that is not followed. It is gone all the same: systemd would ask for it for ever.
var ErrNoReboot = errors.New("the machine is not rebooted")

// requestMax is what a request may have: the boot's name.
const requestMax = 64

// MayReboot takes the agent's request for a reboot away and tells whether it is one: made in this boot, by a plain file, while the record tells of an upgrade that ends in another system. The agent's user can write both; what is
// kept from it is a reboot out of mere habit, and a request that was left over.
func (p *Places) MayReboot(request, bootID string) error {
	text, wrong := readGuarded(filepath.Dir(request), filepath.Base(request), requestMax)
	if err := os.Remove(request); err != nil {
		return errors.Join(ErrNoReboot, wrong, err)
	}
	if wrong != nil {
		return fmt.Errorf("%w: %w", ErrNoReboot, wrong)
	}
	if asked := strings.TrimSpace(string(text)); asked != strings.TrimSpace(bootID) || asked == "" {
		return fmt.Errorf("%w: it was asked for in boot %.40q, and this is another", ErrNoReboot, asked)
	}
	r, err := p.recordOf()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoReboot, err)
	}
	switch r.State {
	case upgrade.Switched, upgrade.Committing, upgrade.Rollback, upgrade.Restoring, upgrade.RolledBack, upgrade.Failed: // the last three: the system that was gone back from has started once more
	default:
		return fmt.Errorf("%w: the upgrade is %q", ErrNoReboot, r.State)
	}
	if r.Target.Backend != systemBackend {
		return fmt.Errorf("%w: an upgrade of backend %.20q needs none", ErrNoReboot, r.Target.Backend)
	}
	return nil
}

// systemBackend exchanges the whole system; what this package links is not part of it.
const systemBackend = "rauc"

// Reboot becomes systemctl, which asks for a reboot and waits for nothing: the agent is ended by it, and waits for that. It returns only when that cannot be run.
func Reboot() error {
	var wrong error
	for _, systemctl := range []string{"/usr/bin/systemctl", "/bin/systemctl"} {
		wrong = errors.Join(wrong, unix.Exec(systemctl, []string{"systemctl", "--no-block", "reboot"}, os.Environ()))
	}
	return wrong
}
