package mqtt

import "github.com/weirstream/weir/pipeline"

// known is what the dedup table holds under a packet id.
type known struct {
	present  bool
	qos      uint8
	hash     uint64 // of topic and payload
	age      int64  // message records of the session since; 0 for the last one
	released bool   // QoS 2: its PUBREL came

	// What decide does not ask:
	pos     pipeline.Position
	carried bool // repeated by Carry
}

// seen is what a PUBLISH shows of itself.
type seen struct {
	dup  bool
	qos  uint8
	hash uint64
}

// decide tells whether a PUBLISH is a duplicate of what the table holds under its packet id. sequential: the broker gives
// out ids in sequence. w is the dedup window in message records of the session (RULES 1).
//
// DUP=1 does not mean "seen"; a packet id is not a key; DUP=0 proves novelty only when ids are not sequential (RULES 2).
func decide(k known, p seen, sequential bool, w int64) (duplicate bool) {
	switch {
	case p.qos == 0 || !k.present || k.qos != p.qos || k.hash != p.hash:
		return false
	case !sequential && !p.dup:
		return false // RULES 2: ids are reused at once, only DUP=1 is compared
	case k.released:
		return sequential && k.age < w // RULES 3
	case p.qos == 2 && p.dup:
		return true // live until its PUBREL, however old
	}
	return k.age < w
}

const (
	// regressionsMax: so many ids that went back, in so few messages, are no broker restarts: ids are not sequential.
	regressionsMax = 3
	// regressionHalves: the count of regressions is halved after so many ids in sequence.
	regressionHalves = 1024
	// proofRun: only sequential ids can run so long on one connection; a broker with lowest-free ids and such a window would
	// need as many messages in flight.
	proofRun = 8192
	// orderCountMax: more ids or regressions than that say nothing new. Both counts go into anchors, and an int of 32 bits is spent within weeks.
	orderCountMax = 1 << 20
)

// idOrder judges whether a broker gives out packet ids in sequence. Zero value: sequential until shown otherwise.
type idOrder struct {
	last        uint16 // highest id of the present run, 0 before the first
	run         int
	regressions int
	scattered   bool
}

func (o *idOrder) sequential() bool { return !o.scattered }

// observe takes the id of one PUBLISH. first: no DUP=0 id came on this connection yet, so a broker that was restarted from
// a snapshot may go back here. It returns true when an id went back.
func (o *idOrder) observe(id uint16, dup, first bool) (back bool) {
	ahead := id - o.last // modulo 65536; ids skip 0, which does not matter here
	switch {
	case o.last == 0 || ahead != 0 && ahead < 1<<15:
		o.last = id
		if dup {
			return false
		}
		if o.run++; o.run%regressionHalves == 0 {
			o.regressions /= 2
		}
		if o.run > orderCountMax { // it is one behind a multiple of regressionHalves, and still is
			o.run -= regressionHalves
		}
		if o.run >= proofRun {
			o.scattered = false
		}
		return false
	case dup:
		return false // a re-sent message is older than the last one
	}
	o.last, o.run = id, 0
	o.regressions = min(o.regressions+1, orderCountMax)
	if !first || o.regressions >= regressionsMax {
		o.scattered = true
	}
	return true
}
