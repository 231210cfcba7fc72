package agent

import (
	"fmt"
	"os"

	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/store/disk"
)

// rescues tells that this process is there for help to come: it connects no broker and runs no pipeline. What it cannot read, a program that comes may: it is left as it is, and something empty in memory stands in.
func (a *Agent) rescues() bool { return a.runs() && a.upgrader.controls() }

// standIn gives err back, but in a rescue: there it is told, and what could not be read is gone on without.
func (a *Agent) standIn(what string, err error) error {
	if err == nil || !a.rescues() {
		return err
	}
	a.log.Error("what cannot be read is left as it is, and the rescue goes on without it", "what", what, "error", err)
	a.unusable = append(a.unusable, fmt.Errorf("%s: %w", what, err))
	return nil
}

// openRegistry reads the registry, and tells whether this state_dir was used before.
func (a *Agent) openRegistry(dir string) (used bool, err error) {
	if a.registry, err = statedir.OpenRegistry(a.fs, dir); err == nil {
		err = a.registry.CheckIDs()
	}
	if err == nil {
		return a.registry.Gateway != "", nil
	}
	if err = a.standIn("the registry of pipelines", err); err != nil {
		return false, err
	}
	a.unregistered = true
	a.registry = statedir.NewRegistry(disk.NewOverlay(a.fs), dir)
	return true, nil
}

// unidentified goes on, in a rescue, without knowing which incarnation this device is: nobody is told of one, nothing is claimed, and nothing is written of it.
func (a *Agent) unidentified(err error) (settle func() error, _ error) {
	if err = a.standIn("who this device is", err); err != nil {
		return nil, err
	}
	a.identity = identity.First(identity.ReadBoard(a.config.BoardSerial, os.ReadFile), true)
	if a.claims != nil {
		err = a.claims.Close()
		a.claims = nil
	}
	return func() error { return nil }, err
}
