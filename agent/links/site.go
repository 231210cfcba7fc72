// Package links joins the streams of an outbox with their far ends: it makes the endpoint of each sink as the config has it, the sender that empties the sink's queue into it, and
// the metered links that senders share. Nothing connects before a link runs. Which sinks there are, and when a link may begin, is the agent's.
package links

import (
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline/certtime"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/filesink"
	"github.com/weirstream/weir/uplink/httpsink"
	"github.com/weirstream/weir/uplink/objectsink"
)

// Site is what an endpoint takes from the gateway that it is reached from.
type Site struct {
	Board          string                           // this unit's name to upstreams
	DenyPrivate    bool                             // sinks to loopback and private hosts are refused
	AllowPlaintext bool                             // upstreams off loopback without TLS
	Dates          certtime.Now                     // judges certificates
	Transports     *httpsink.Transports             // what sinks over HTTP share their connections by
	Broker         func(name string) *config.Broker // of the config that the pipeline is of; nil: it has none of that name
	Logger         *slog.Logger
}

// Endpoint makes the far end of a sink as configured. It connects to nothing yet.
func (site *Site) Endpoint(s *plan.Sink) (uplink.Endpoint, error) {
	switch {
	case s.Spec.HTTP != nil:
		return site.httpEndpoint(s.Spec.HTTP)
	case s.Spec.Postgres != nil:
		return site.postgresEndpoint(s)
	case s.Spec.File != nil:
		// Below security.file_root, which config has checked.
		if err := disk.OS.MkdirAll(filepath.Dir(s.Spec.File.File)); err != nil {
			return nil, fmt.Errorf("make directory of sink %s: %w", s.UID, err)
		}
		return filesink.New(filesink.Config{Path: s.Spec.File.File, MaxBytes: s.Spec.File.RotateBytes, Keep: s.Spec.File.Keep})
	case s.Spec.Objects != nil:
		return objectsink.New(site.objectsConfig(s))
	case s.Spec.NATS != nil:
		return site.natsEndpoint(s.Spec.NATS)
	case s.Spec.MQTT != nil:
		return site.mqttEndpoint(s.Spec.MQTT)
	case s.Spec.Influx != nil:
		return site.influxEndpoint(s)
	}
	return nil, fmt.Errorf("BUG: sink %s has no target", s.UID)
}
