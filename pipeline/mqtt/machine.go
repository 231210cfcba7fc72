package mqtt

// phase is where a session stands with its broker.
type phase uint8

const (
	phaseOffline     phase = iota
	phaseConnecting        // CONNECT is written
	phaseSweeping          // PINGREQ is written behind it; what is re-sent comes before the PINGRESP (RULES 6)
	phaseSubscribing       // SUBSCRIBE is due, once everything appended is durable (RULES 5)
	phaseReady             // the broker holds exactly the filters of the config
	phaseRefused           // connected, but the broker did not grant what the config asks for
)

func (p phase) String() string {
	switch p {
	case phaseOffline:
		return "offline"
	case phaseConnecting:
		return "connecting"
	case phaseSweeping:
		return "resuming"
	case phaseSubscribing:
		return "subscribing"
	case phaseReady:
		return "ready"
	case phaseRefused:
		return "refused"
	}
	return "unknown"
}

// machine is the state of a session as far as decisions need it. A value: next gives a new one.
type machine struct {
	phase phase
	// known: this process had the session ready, and every CONNECT since was answered (RULES 4).
	known bool
	// unknown: known was false when the present CONNECT was written.
	unknown bool
	// granted: the journal says that the broker granted exactly the filters of the config.
	granted bool
}

type event uint8

const (
	evConnect event = iota // CONNECT goes out
	evFresh                // CONNACK, session_present=0
	evPresent              // CONNACK, session_present=1
	evPong                 // PINGRESP to our own PINGREQ
	evGranted              // SUBACK with every QoS as asked
	evRefused              // SUBACK with a refusal or a lower QoS
	evLost                 // the connection ended
)

// action is what an event asks for, to be done before the next packet is read.
type action uint8

const (
	actVoid      action = 1 << iota // clear the table, journal EntrySession
	actPing                         // write PINGREQ
	actForget                       // journal EntryForget with the ids seen on this connection
	actSubscribe                    // sync the journal, then SUBSCRIBE
)

// next is the session's state machine (RULES 4, 5, 6).
func next(m machine, e event) (machine, action) {
	switch e {
	case evConnect:
		m.unknown, m.known, m.phase = !m.known, false, phaseConnecting
	case evFresh:
		m.unknown, m.granted, m.phase = false, false, phaseSubscribing
		return m, actVoid | actSubscribe
	case evPresent:
		switch {
		case m.unknown:
			m.phase = phaseSweeping
			return m, actPing
		case !m.granted:
			m.phase = phaseSubscribing
			return m, actSubscribe
		}
		m.phase, m.known = phaseReady, true
	case evPong:
		if m.phase == phaseSweeping {
			m.phase = phaseSubscribing
			return m, actForget | actSubscribe
		}
	case evGranted:
		m.phase, m.known, m.granted = phaseReady, true, true
	case evRefused:
		m.phase, m.granted = phaseRefused, false
	case evLost:
		m.phase = phaseOffline
	}
	return m, 0
}
