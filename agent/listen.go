package agent

import (
	"github.com/weirstream/weir/agent/api"
)

// admit looks, before anything is recovered or written, at what may keep a start from succeeding: a start that fails is tried again by the service manager, for ever, and is to wear no
// flash. Only what succeeds binds the API's socket, which may lie on flash itself, and that last.
func (a *Agent) admit() (err error) {
	if _, err := a.newSessions(a.applier.subscribed(a.config)); err != nil { // only looked at: the clock that they need comes with the journal
		return err
	}
	if a.scraped, err = a.listenMetrics(); err != nil {
		return err
	}
	a.server, err = api.Listen(a.config.API.Socket, a, a.log)
	return err
}

// listenMetrics binds metrics.listen, nil when the config has none. Only /metrics is served there, without a token: the config
// allows loopback alone.
func (a *Agent) listenMetrics() (*api.Server, error) {
	addr := a.config.Metrics.Listen.Value
	if addr == "" {
		return nil, nil
	}
	return api.ListenMetrics(addr, a, a.log)
}
