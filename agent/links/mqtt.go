package links

import (
	"fmt"
	"time"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline/mqtt"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/mqttsink"
)

// mqttEndpoint makes an MQTT sink as configured.
func (site *Site) mqttEndpoint(t *plan.MQTTTarget) (uplink.Endpoint, error) {
	b := site.Broker(t.Broker.Value)
	if b == nil {
		return nil, fmt.Errorf("broker %s of an mqtt sink is not defined", t.Broker)
	}
	c := mqttsink.Default()
	c.Broker = BrokerSettings(b)
	c.Broker.Dates = site.Dates
	c.Topic, c.Control, c.QoS, c.Retain, c.Envelope = t.Topic.Value, t.Control.Value, t.QoS, t.Retain, t.Envelope
	c.InflightMax, c.SessionExpiry, c.RejectUnauthorized = t.Inflight, time.Duration(t.SessionExpiryNs), t.OnNotAuthorized == "reject"
	c.Board, c.Logger = site.Board, site.Logger
	return mqttsink.New(c)
}

// BrokerSettings say how a broker is reached, for sources and sinks alike.
func BrokerSettings(b *config.Broker) mqtt.SessionConfig {
	c := mqtt.DefaultConfig()
	c.Name, c.URL, c.ClientID = b.Name.Value, b.URL.Value, b.ClientID.Value
	c.Username, c.PasswordFile = b.Username, b.PasswordFile
	if b.TLS != nil {
		c.CAFile, c.CertFile, c.KeyFile, c.ServerName = b.TLS.CA, b.TLS.Cert, b.TLS.Key, b.TLS.ServerName
	}
	if b.Keepalive > 0 {
		c.KeepAlive = b.Keepalive
	}
	if b.ConnectTimeout > 0 {
		c.ConnectTimeout = b.ConnectTimeout
	}
	return c
}
