//go:build nocentral

package agent

import (
	"context"
	"errors"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/pipeline"
)

// upgrader of a build without the central store: the config refuses the sections, and the package manager does it.
type upgrader struct{ kept string }

var errNotUpgraded = errors.New("upgrades are not in this weir: it was built with the tag nocentral")

func (a *Agent) openUpgrader() (*upgrader, error) {
	if a.options.ControlOnly {
		return nil, errNotUpgraded
	}
	return &upgrader{}, nil
}

func (u *upgrader) settle() error                                  { return nil }
func (u *upgrader) minor() error                                   { return nil }
func (u *upgrader) parks(string) error                             { return nil }
func (u *upgrader) heldBack(string) (*probation, bool)             { return nil, false }
func (u *upgrader) controls() bool                                 { return false }
func (u *upgrader) hold()                                          {}
func (u *upgrader) highest() pipeline.Position                     { return 0 }
func (u *upgrader) uncommitted() (map[string]saved, error)         { return nil, nil }
func (u *upgrader) busy() error                                    { return nil }
func (u *upgrader) hangs() error                                   { return nil }
func (u *upgrader) masters() error                                 { return nil }
func (u *upgrader) begin() error                                   { return nil }
func (u *upgrader) unstarted(err error) error                      { return err }
func (u *upgrader) run(context.Context) error                      { return nil }
func (u *upgrader) leaving() <-chan struct{}                       { return nil }
func (u *upgrader) status() *api.UpgradeStatus                     { return nil }
func settleUpgrade(string) error                                   { return nil }
func (a *Agent) Upgrade(context.Context, api.UpgradeOptions) error { return errNotUpgraded }
func (a *Agent) AbortUpgrade(context.Context, string) error        { return errNotUpgraded }
