//go:build nopostgres

package links

import (
	"errors"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/uplink"
)

// postgresEndpoint says what this build lacks.
func (site *Site) postgresEndpoint(*plan.Sink) (uplink.Endpoint, error) {
	return nil, errors.New("this weir was built without PostgreSQL (-tags nopostgres)")
}
