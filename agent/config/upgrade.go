package config

import (
	"time"

	"github.com/weirstream/weir/pipeline/plan"
)

// Fleet is who may direct this gateway from afar.
type Fleet struct {
	Pos      plan.Pos
	Root     string        // file of the root document that everything else is checked against; "": nobody may
	Channel  plan.Text     // whose roll-outs and commands count here; "": nobody directs it from afar
	Poll     time.Duration // how often it is looked
	Spread   time.Duration // over how long gateways spread what comes to all of them at once
	Doorbell Doorbell
}

// Doorbell is a topic on which a gateway is told that there is something new.
type Doorbell struct {
	Broker plan.Text // "": none
	Topic  string
}

// Upgrade is how another program takes over.
type Upgrade struct {
	Backend        string // self, rauc, none
	Probation      time.Duration
	ProbationBytes int64 // of results that are held back
	Tries          int
	PowerMin       int // percent of the battery
}

// Values of Upgrade.Backend.
const (
	BackendNone = "none"
	BackendSelf = "self"
	BackendRauc = "rauc"
)
