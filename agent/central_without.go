//go:build nocentral

package agent

import (
	"context"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/snapshot"
)

// A build without the central store: the config refuses the section.
type (
	offsites    struct{}
	offsitePipe struct{}
)

func (a *Agent) openCentral() error                                     { return nil }
func (o *offsites) enlist(snapshot.UUID, string, string) error          { return nil }
func (o *offsites) run(context.Context) error                           { return nil }
func (o *offsites) strike(*statedir.Registry)                           {}
func (o *offsites) close() error                                        { return nil }
func (a *attempt) offsite() *offsitePipe                                { return nil }
func (a *attempt) keepFrom() uint64                                     { return 0 }
func (a *attempt) runOffsite(ctx context.Context, _ *offsitePipe) error { return nil }
func (a *Agent) centralStatus(snapshot.UUID) *api.CentralStatus         { return nil }
