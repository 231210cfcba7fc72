package rig

import "time"

// Patience bounds every wait of a test for a server, a process or an answer. What waits goes on as soon as the thing is there: only a failure takes so long,
// and a machine that has much else to do, or is several times slower than another, makes none.
const Patience = 4 * time.Minute

// pollEvery is how often a server is asked that is not there yet.
const pollEvery = 20 * time.Millisecond
