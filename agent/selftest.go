package agent

import (
	"github.com/weirstream/weir/agent/compat"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/fleet/document"
)

// SelftestReport is what a program says of itself before it is run on a gateway.
type SelftestReport struct {
	Version   string          `json:"version"`
	Pipelines int             `json:"pipelines"`
	Compat    document.Compat `json:"compat"` // what it reads and writes: `weir compat`
}

// Selftest tells whether this program can run a config. It opens nothing for writing: another program works on state_dir.
func Selftest(cfg *config.Config) (SelftestReport, error) {
	if missing := cfg.MissingBrokers(); len(missing) > 0 {
		return SelftestReport{}, missing.Err()
	}
	return SelftestReport{Version: Version(), Pipelines: len(cfg.Pipelines), Compat: compat.Current()}, nil
}
