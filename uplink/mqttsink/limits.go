package mqttsink

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// brokerLimits are what a broker says of itself in CONNACK; what it does not say is at the standard's default.
// Source: OASIS MQTT Version 5.0, 3.2.2.3.
type brokerLimits struct {
	receiveMax int           // messages under way at once
	packetMax  uint32        // bytes
	qosMax     int           // 0, 1, 2
	retain     bool          // whether it keeps retained messages
	expiry     time.Duration // how long it keeps the session
	keepAlive  time.Duration // how long it bears silence; 0: for ever
}

// limitsOf are a broker's that says nothing, where the client asked for an expiry.
func limitsOf(asked time.Duration) brokerLimits {
	return brokerLimits{receiveMax: math.MaxUint16, packetMax: math.MaxUint32, qosMax: 2, retain: true, expiry: asked}
}

// take notes a property of CONNACK.
func (l *brokerLimits) take(id byte, number uint32) {
	switch id {
	case propReceiveMaximum:
		l.receiveMax = int(number)
	case propMaximumPacket:
		l.packetMax = number
	case propMaximumQoS:
		l.qosMax = int(number)
	case propRetain:
		l.retain = number != 0
	case propSessionExpiry:
		l.expiry = time.Duration(number) * time.Second
	case propServerKeepAlive:
		l.keepAlive = time.Duration(number) * time.Second
	}
}

// text names what is below the default, and what the sink asked for; "" when nothing is.
func (l *brokerLimits) text(asked time.Duration) string {
	var all []string
	add := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if l.receiveMax < math.MaxUint16 {
		add("%d messages under way", l.receiveMax)
	}
	if l.packetMax < math.MaxUint32 {
		add("packets up to %d bytes", l.packetMax)
	}
	if l.qosMax < 2 {
		add("QoS %d at most", l.qosMax)
	}
	if !l.retain {
		add("no retained messages")
	}
	if l.expiry < asked {
		add("the session is kept for %s where session_expiry is %s", l.expiry, asked)
	}
	if l.keepAlive > 0 {
		add("a connection may be silent for %s", l.keepAlive)
	}
	return strings.Join(all, ", ")
}
