package links

import (
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
)

// Ways makes the metered links of a config by name. All pipelines share them. stamp is asked for the time of day whenever a window is looked at.
func Ways(list []*config.Link, stamp func() pipeline.Stamp) map[string]*uplink.Link {
	ways := map[string]*uplink.Link{}
	for _, c := range list {
		l := &uplink.Link{Name: c.Name.Value, Windows: uplink.Windows{List: c.Parsed, Zone: c.Location}, AnyTime: c.AnyTimePriority(),
			Clock: func() (int64, bool) { s := stamp(); return s.Wall, s.Trusted }}
		if c.Bandwidth > 0 {
			l.Limiter = uplink.NewLimiter(int(min(c.Bandwidth, 1<<30)))
		}
		ways[l.Name] = l
	}
	return ways
}
