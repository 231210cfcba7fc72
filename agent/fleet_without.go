//go:build nocentral

package agent

import (
	"context"

	"github.com/weirstream/weir/agent/api"
)

// fleetSide of a build without the central store: nobody directs this gateway from afar.
type fleetSide struct{}

func (a *Agent) openFleet()                    {}
func (f *fleetSide) run(context.Context) error { return nil }
func (f *fleetSide) leaving() <-chan struct{}  { return nil }
func (f *fleetSide) status() *api.FleetStatus  { return nil }
func (c *checker) fleet() error                { return nil }
func fleetProblems(*api.FleetStatus) []string  { return nil }
