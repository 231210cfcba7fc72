package mqttsink

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/mqtt"
)

// Envelopes of a result.
const (
	// EnvelopeJSON puts stream, generation and sequence around the row: whoever reads the payload can deduplicate, also over MQTT 3.1.1 and
	// behind bridges and rule engines, which pass user properties on seldom.
	EnvelopeJSON = "json"
	// EnvelopeProperties sends the bare row, with the rest as user properties of MQTT 5.
	EnvelopeProperties = "properties"
)

// Config of one MQTT sink.
type Config struct {
	// Broker is how it is reached: URL, certificates, user name, password file, connect timeout. Its client id is not used: the session is the stream's own.
	Broker mqtt.SessionConfig
	// Topic of a result: text with {column}, {$gateway}, {$pipeline}, {$sink}.
	Topic string
	// Control is put before GATEWAY/PIPELINE/SINK/progress and …/gaps.
	Control  string
	QoS      int // 1 or 2
	Retain   bool
	Envelope string
	// InflightMax messages are under way at once, or fewer where the broker wants that.
	InflightMax int
	// SessionExpiry is how long the broker keeps the session of QoS 2 behind a lost connection. Whole seconds.
	SessionExpiry time.Duration
	// RejectUnauthorized makes dead letters of results whose topic the broker does not allow; else the sink waits for the right.
	RejectUnauthorized bool
	// Board is this device's serial: an equal incarnation of another board is refused (RULES 28).
	Board  string
	Logger *slog.Logger // nil: nothing is logged
}

// Default is QoS 1 with the JSON envelope.
func Default() Config {
	return Config{Control: "weir", QoS: 1, Envelope: EnvelopeJSON, InflightMax: 100, SessionExpiry: 7 * 24 * time.Hour}
}

// InflightLimit bounds InflightMax: what may lie prepared at the broker at once.
const InflightLimit = 1000

// Validate names the first field that is out of range.
func (c *Config) Validate() error {
	if _, err := parseTopic(c.Topic); err != nil {
		return err
	}
	switch {
	case c.Broker.URL == "":
		return errors.New("mqtt sink has no broker url")
	case c.Control == "" || strings.ContainsAny(c.Control, "+#\x00") || c.Control[0] == '$':
		return fmt.Errorf("mqtt sink control is %q, want a topic without + # and a leading $", c.Control)
	case c.QoS != 1 && c.QoS != 2:
		return fmt.Errorf("mqtt sink qos is %d, allowed is 1, 2", c.QoS)
	case c.Envelope != EnvelopeJSON && c.Envelope != EnvelopeProperties:
		return fmt.Errorf("mqtt sink envelope is %q, allowed is json, properties", c.Envelope)
	case c.InflightMax < 1 || c.InflightMax > InflightLimit:
		return fmt.Errorf("mqtt sink max_inflight is %d, allowed is 1 to %d", c.InflightMax, InflightLimit)
	case c.SessionExpiry < time.Second || c.SessionExpiry > 100*365*24*time.Hour:
		return fmt.Errorf("mqtt sink session_expiry is %s, allowed is 1s to 100 years", c.SessionExpiry)
	}
	return nil
}
