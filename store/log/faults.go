package log

// faults are planted by tests, or by the environment in a build with -tags weirfault, to show that they would be found; all false otherwise.
type faults struct {
	noSync        bool   // frames are not synced
	reuseUnsynced bool   // those in segments that were in use before are not
	noDirSync     bool   // new names are not synced
	noEpoch       bool   // neither epoch nor position ties a frame to its segment's present use
	oldNotSynced  bool   // a new segment is written before the old one is synced
	tailNotSynced bool   // recovery trusts what it reads
	ackEarly      bool   // durable is told before the sync
	keepStale     bool   // frames behind the cut are not removed
	jumpUnwritten bool   // positions that are left out are so in memory only
	jumpAsLoss    bool   // they are written as a loss is
	syncAgain     bool   // a sync that failed is tried again, and believed
	fullIsDone    bool   // a write without space counts as done
	noPause       bool   // it is tried as fast as it can be
	tellAgain     bool   // what was lost is told of at each Open
	hang          func() // a sync takes as long as that does
	frameRaw      int    // no fault: smaller frames than frameRawBytes
}
