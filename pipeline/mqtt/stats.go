package mqtt

import (
	"sync/atomic"
	"time"
)

// Stats is a reading of a session's counters, since the process began.
type Stats struct {
	State     string // offline, connecting, resuming, subscribing, ready, refused
	Err       string // why the session is not ready; "" when it is
	Takeover  bool   // another client seems to use the client id
	Since     time.Time
	Received  uint64 // messages read from the socket, duplicates included
	Bytes     uint64 // of their payloads
	Journaled uint64 // message records
	QoS0      uint64 // of these, at most once
	Acked     uint64 // acknowledgements written, PUBCOMPs included
	Writes    uint64 // writes that carried them

	Duplicates      uint64
	TurnedAway      uint64 // the journal was full or failed, or the connection ended: neither journaled nor acknowledged, the broker sends them again
	Stubs           uint64 // too large, ill-formed topic, quota
	RetainedIgnored uint64
	Unrouted        uint64 // journaled without a source: the broker still holds a filter that the config dropped
	Throttled       uint64 // times that a rate limit held reading up

	Connects        uint64 // CONNECTs written
	ConnectFailures uint64
	StaleAcks       uint64 // acknowledgements that died with their connection; the broker re-sends
	SessionLost     uint64 // the broker forgot the session: messages may be missing
	WentBack        uint64 // DUP=0 packet ids that went back: broker restarted from an old snapshot
	OldDuplicates   uint64 // re-sent though acknowledged at least two commits before
	IDReuse         uint64 // packet ids reused while unacknowledged: the broker breaks the standard
	Forgotten       uint64 // dedup entries dropped by the sweep of an unknown session
	Takeovers       uint64 // alarms
	Refusals        uint64 // SUBACKs that refused
	QueueHints      uint64 // outages after which exactly max_queued_messages came
	Full            uint64 // disconnects because the journal was full
	ProtocolErrors  uint64

	// Of the broker's own count, when it is watched: messages of all its clients.
	DroppedErr    string // why it is not known
	Dropped       uint64 // since the first reading
	DroppedAway   uint64 // of these, between two readings in which this session was away or held back
	DroppedBefore uint64 // the first reading: since the broker's start
}

// counters are the live form of Stats.
type counters struct {
	received, bytes, journaled, qos0, acked, writes                                     atomic.Uint64
	duplicates, turnedAway, stubs, retainedIgnored, unrouted, throttled                 atomic.Uint64
	connects, connectFailures, staleAcks, sessionLost, wentBack, oldDuplicates, idReuse atomic.Uint64
	forgotten, takeovers, refusals, queueHints, full, protocolErrors                    atomic.Uint64
}

// Stats may be called from any goroutine at any time.
func (s *Session) Stats() Stats {
	s.mu.Lock()
	r := Stats{State: s.machine.phase.String(), Err: s.problem, Takeover: s.takeover, Since: s.since}
	s.mu.Unlock()
	c := &s.counters
	r.Received, r.Bytes, r.Journaled, r.QoS0 = c.received.Load(), c.bytes.Load(), c.journaled.Load(), c.qos0.Load()
	r.Acked, r.Writes = c.acked.Load(), c.writes.Load()
	r.Duplicates, r.Stubs, r.RetainedIgnored = c.duplicates.Load(), c.stubs.Load(), c.retainedIgnored.Load()
	r.TurnedAway = c.turnedAway.Load()
	r.Unrouted, r.Throttled = c.unrouted.Load(), c.throttled.Load()
	r.Connects, r.ConnectFailures, r.StaleAcks = c.connects.Load(), c.connectFailures.Load(), c.staleAcks.Load()
	r.SessionLost, r.WentBack, r.OldDuplicates = c.sessionLost.Load(), c.wentBack.Load(), c.oldDuplicates.Load()
	r.IDReuse, r.Forgotten, r.Takeovers = c.idReuse.Load(), c.forgotten.Load(), c.takeovers.Load()
	r.Refusals, r.QueueHints, r.Full, r.ProtocolErrors = c.refusals.Load(), c.queueHints.Load(), c.full.Load(), c.protocolErrors.Load()
	d := &s.drops
	d.mu.Lock()
	r.DroppedErr, r.Dropped, r.DroppedAway, r.DroppedBefore = d.problem, d.dropped, d.away, d.before
	d.mu.Unlock()
	return r
}
