package agent

import (
	"os"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/led"
)

// settleBoard gives a config that this agent is to run the defaults of the board. Each config takes this way, so that two of them differ in what their files say alone.
func (a *Agent) settleBoard(cfg *config.Config) error {
	if a.options.Machine == nil {
		return nil
	}
	return cfg.Settle(*a.options.Machine)
}

// keptConfig is a config that was kept, settled.
func (p *applier) keptConfig(digest string, frozen bool) (*config.Config, error) {
	cfg, err := p.store.Config(digest, frozen, os.ReadFile)
	if err != nil {
		return nil, err
	}
	return cfg, p.agent.settleBoard(cfg)
}

// lamps are the LEDs of the config that the agent was started with.
func (a *Agent) lamps() *led.Lamps {
	l := &led.Lamps{Dir: a.options.leds, Log: a.log}
	l.Status, l.Alarm = a.config.LED.Names()
	return l
}

// shownState is what the LEDs show now.
func (a *Agent) shownState() led.State {
	s := a.Status()
	return stateOf(&s)
}

// stateOf is pure.
func stateOf(s *api.Status) led.State {
	switch {
	case s.Identity.Fenced != "":
		return led.Fenced
	case len(s.Problems) > 0:
		return led.Degraded
	}
	return led.Running
}
