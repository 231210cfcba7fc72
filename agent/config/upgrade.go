package config

import "time"

// Fleet is who may direct this gateway from afar.
type Fleet struct {
	Root string // file of the root document that everything else is checked against; "": nobody may
}

// Upgrade is how another program takes over.
type Upgrade struct {
	Backend        string // self, none
	Probation      time.Duration
	ProbationBytes int64 // of results that are held back
	Tries          int
	PowerMin       int // percent of the battery
}

// Values of Upgrade.Backend.
const (
	BackendNone = "none"
	BackendSelf = "self"
)
