package rollout

// planted are faults that tests must find.
type planted struct {
	silenceIgnored bool // a gateway that says nothing is slow
	gatedIsGood    bool // one that never tried counts as a success
	everybodyIn    bool // waves are not asked
	noSoak         bool // a wave need not last
	noMinimum      bool // the first report decides
	haltLost       bool // a halt is a verdict that nobody writes down
	waveClock      bool // the next wave keeps the time of the one before
}
