package agent

import (
	"slices"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/uplink"
)

// roster is what the agent runs now. It is replaced whole and never changed, so that whoever reads it needs no lock; before Run open writes it, then
// the applier alone.
type roster struct {
	config      *config.Config
	supervisors []*supervisor
	sessions    []*session
	ways        map[string]*uplink.Link // those of the config, by name
}

// all gives the supervisors, in the order of the config.
func (a *Agent) all() []*supervisor { return a.roster.Load().supervisors }

// sessions gives the broker sessions, in the order of the config.
func (a *Agent) sessions() []*session { return a.roster.Load().sessions }

// dismiss ends a supervisor whose pipeline does not run, and waits for it.
func (a *Agent) dismiss(s *supervisor) {
	next := *a.roster.Load()
	next.supervisors = slices.DeleteFunc(slices.Clone(next.supervisors), func(o *supervisor) bool { return o == s })
	a.roster.Store(&next)
	s.quit()
	<-s.ended
}

// named finds the supervisor of a run by its full name; nil: there is none.
func (a *Agent) named(name string) *supervisor {
	for _, s := range a.all() {
		if s.name == name {
			return s
		}
	}
	return nil
}
