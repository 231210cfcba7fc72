package mqttsink

import (
	"errors"
	"fmt"
)

// Reason codes that mean something to the sink. Source: OASIS MQTT Version 5.0, 2.4.
const (
	reasonNotAuthorized  = 0x87
	reasonTaken          = 0x8E // another connection has the session
	reasonTopicInvalid   = 0x90
	reasonIDNotFound     = 0x92
	reasonTooLarge       = 0x95
	reasonPayloadInvalid = 0x99
)

// reasonTexts are those that a publisher may be told.
var reasonTexts = map[byte]string{
	0x01: "the broker does not speak MQTT 5", 0x80: "unspecified error", 0x81: "malformed packet", 0x82: "protocol error", 0x83: "implementation specific error",
	0x84: "the broker does not speak MQTT 5", 0x85: "client id not valid", 0x86: "bad user name or password", reasonNotAuthorized: "not authorized",
	0x88: "server unavailable", 0x89: "server busy", 0x8A: "banned", 0x8B: "server shutting down", 0x8D: "keep alive timeout", reasonTaken: "session taken over by another connection",
	reasonTopicInvalid: "topic name invalid", 0x91: "packet identifier in use", reasonIDNotFound: "packet identifier not found", 0x93: "receive maximum exceeded",
	reasonTooLarge: "packet too large", 0x96: "message rate too high", 0x97: "quota exceeded", 0x98: "administrative action", reasonPayloadInvalid: "payload format invalid",
	0x9A: "retain not supported", 0x9B: "QoS not supported", 0x9C: "use another server", 0x9D: "server moved", 0x9F: "connection rate exceeded", 0xA0: "maximum connect time",
}

// refusal is what the broker answered.
type refusal struct {
	reason byte
	text   string
}

func (r *refusal) Error() string {
	name := reasonTexts[r.reason]
	if name == "" {
		name = "refused"
	}
	if r.text != "" {
		return fmt.Sprintf("%s (0x%02X: %s)", name, r.reason, r.text)
	}
	return fmt.Sprintf("%s (0x%02X)", name, r.reason)
}

// hopeless says that this message will never be taken.
func (r *refusal) hopeless() bool {
	return r.reason == reasonTopicInvalid || r.reason == reasonTooLarge || r.reason == reasonPayloadInvalid
}

// adviceOn tells what to do about what the broker answered, "" when waiting is all; connecting is to CONNECT.
func adviceOn(err error, connecting bool) string {
	var r *refusal
	if !errors.As(err, &r) {
		return ""
	}
	switch r.reason {
	case 0x01, 0x84:
		return "; an mqtt sink needs MQTT 5: mosquitto has it from 1.6 on"
	case 0x86, reasonNotAuthorized, 0x8A:
		if connecting {
			return "; see username and password_file (it is read again), and whom the broker lets in"
		}
		return "; let the sink's user write there, in the broker's access control"
	case 0x85:
		return "; the broker does not take the sink's client id, weir and 16 digits"
	case 0x97, 0x9F:
		return "; see the broker's limits for one client: it waits until there is room"
	}
	return ""
}
