package agent

import (
	"time"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/flash"
)

// openFlash makes the keeper of this agent's storage: it sees the pipelines that are to run, and reaches the coordinators of those that do.
func (a *Agent) openFlash() *flash.Keeper {
	return flash.NewKeeper(flash.Site{
		Config: a.config, Journal: a.journal, FS: a.fs, Log: a.log, System: a.options.system, Every: a.options.flashEvery,
		Pipelines: func() (list []*config.Pipeline) {
			for _, s := range a.all() {
				list = append(list, s.spec.Pipeline)
			}
			return list
		},
		Stretch: func(least time.Duration) {
			for _, s := range a.all() {
				if at := s.running(); at != nil {
					at.coordinator.Stretch(least)
				}
			}
		},
	})
}
