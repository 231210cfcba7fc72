package uplink

// pace bounds the results of a batch by what the link carries between two cuts. On a bad link a batch of the configured size may take longer than
// a connection lives or a request may take: sent again as it was, it would never arrive. So each cut halves the bound. It grows back as
// TCP's window does (RFC 5681): twofold with each batch that went through, up to half of what failed last; from there on only after
// steadyBatches in a row, so that on a link with random cuts about two batches of three go through.
//
// An upstream that is down cuts everything. That costs a few small batches when it is back.
type pace struct {
	most    int // configured
	bound   int
	careful int  // from this bound on growth is slow
	through int  // batches in a row that went through at this bound
	cuts    int  // in a row
	held    bool // planted by tests: cuts teach nothing
}

// steadyBatches of a size have to go through before a larger one is tried.
const steadyBatches = 2

func newPace(most int) pace { return pace{most: most, bound: most, careful: most} }

// cut says that a batch of n results failed on the way.
func (p *pace) cut(n int) {
	if p.held {
		return
	}
	n = max(1, min(n, p.bound)/2)
	if p.cuts++; p.cuts == 1 {
		p.careful = n
	}
	p.bound, p.through = n, 0
}

// arrived says that a batch of n results went through. One that was smaller than it could be proves nothing.
func (p *pace) arrived(n int) {
	p.cuts = 0
	if n < p.bound || p.bound == p.most {
		return
	}
	if p.through++; p.bound >= p.careful && p.through < steadyBatches {
		return
	}
	p.through = 0
	p.bound = min(2*p.bound, p.most)
}
