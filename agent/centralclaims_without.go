//go:build nocentral

package agent

import (
	"errors"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline/certtime"
)

// A build without the central store: the config refuses the section.

func openClaims(*config.Config, string, certtime.Now) (claims, error) { return nil, nil }

func openUploads(*config.Config, Trusted) (Legacy, error) {
	return nil, errors.New("the central store is not in this weir: it was built with the tag nocentral")
}
