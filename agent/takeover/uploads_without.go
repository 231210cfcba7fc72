//go:build nocentral

package takeover

import (
	"errors"

	"github.com/weirstream/weir/agent/config"
)

// openUploads says what this build lacks.
func openUploads(*config.Config, Trusted) (Legacy, error) {
	return nil, errors.New("the central store is not in this weir: it was built with the tag nocentral")
}
