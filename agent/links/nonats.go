//go:build nonats

package links

import (
	"errors"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/uplink"
)

// natsEndpoint says what this build lacks.
func (site *Site) natsEndpoint(*plan.NATSTarget) (uplink.Endpoint, error) {
	return nil, errors.New("this weir was built without NATS (-tags nonats)")
}
