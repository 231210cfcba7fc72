package channel

// faults are planted by tests, which must find them.
type faults struct {
	everyRing   bool // each ring is a look
	actFirst    bool // a command is carried out before its order is durable
	anySerial   bool // old documents count
	anyAudience bool // commands and roll-outs for others are for this gateway
	anyFleet    bool // documents of another fleet count
	anyPlace    bool // documents that lie where another one does count
	toldAlways  bool // what is refused is told each time
	askAlways   bool // a roll-out is handed over at each look
	saveAlways  bool // the ledger is written at each look

	resultsStay   bool // a result that the disk has lost is waited for
	neverReplaced bool // an upgrade goes on although another roll-out has come in its place
}
