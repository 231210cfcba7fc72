package volatiledisk

// A fault is planted by the tests of this package, which must find it.
type fault int

const (
	none                 fault = iota
	flushForgets               // a flush leaves the newest request volatile
	durableIsOverwritten       // a request before a durable one comes back over it
	imageLosesFlushed          // an image lacks what was flushed
	keepsAll                   // a cut never loses anything
	neverTears                 // a request survives whole or not at all
	tornSector                 // half a sector survives
)
