//go:build nocentral

package offsite

import (
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline/certtime"
)

// OpenClaims gives none: this build is without the central store, and the config refuses the section.
func OpenClaims(*config.Config, string, certtime.Now) (Claims, error) { return nil, nil }
