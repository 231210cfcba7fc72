package agent

import (
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/uplink"
)

// newWays makes the links of the config by name. All pipelines share them.
func (a *Agent) newWays(links []*config.Link) map[string]*uplink.Link {
	ways := map[string]*uplink.Link{}
	for _, c := range links {
		l := &uplink.Link{Name: c.Name.Value, Windows: uplink.Windows{List: c.Parsed, Zone: c.Location}, AnyTime: c.AnyTimePriority(),
			Clock: func() (int64, bool) { s := a.clock.Stamp(); return s.Wall, s.Trusted }}
		if c.Bandwidth > 0 {
			l.Limiter = uplink.NewLimiter(int(min(c.Bandwidth, 1<<30)))
		}
		ways[l.Name] = l
	}
	return ways
}
