package agent

import (
	"fmt"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline/mqtt"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/mqttsink"
)

// mqttEndpoint makes an MQTT sink as configured.
func (a *attempt) mqttEndpoint(t *plan.MQTTTarget) (uplink.Endpoint, error) {
	b := a.config.Broker(t.Broker.Value)
	if b == nil {
		return nil, fmt.Errorf("broker %s of an mqtt sink is not defined", t.Broker)
	}
	c := mqttsink.Default()
	c.Broker = brokerSettings(b)
	c.Broker.Dates = a.agent.clock.Wall
	c.Topic, c.Control, c.QoS, c.Retain, c.Envelope = t.Topic.Value, t.Control.Value, t.QoS, t.Retain, t.Envelope
	c.InflightMax, c.SessionExpiry, c.RejectUnauthorized = t.Inflight, durationNs(t.SessionExpiryNs), t.OnNotAuthorized == "reject"
	c.Board, c.Logger = a.agent.board(), a.log
	return mqttsink.New(c)
}

// brokerSettings say how a broker is reached, for sources and sinks alike.
func brokerSettings(b *config.Broker) mqtt.SessionConfig {
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
