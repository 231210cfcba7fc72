//go:build nocentral

package config

import "github.com/weirstream/weir/pipeline/plan"

// A build without the central store refuses its section by name.
var (
	centralSettings []*setting
	upgradeSettings []*setting
	centralUnknown  = notYet(map[string]string{
		"central": "checkpoints stay on this device: this weir was built with the tag nocentral",
		"fleet":   "nobody directs this gateway: this weir was built with the tag nocentral",
		"upgrade": "the package manager upgrades it: this weir was built with the tag nocentral",
	})
)

func (c *Config) checkCentral(*plan.Problems) {}
func (c *Config) checkFleet(*plan.Problems)   {}
