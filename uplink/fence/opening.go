package fence

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/uplink"
)

// Opening is what an endpoint that keeps its progress upstream knows of its last Open. The zero value: none was.
type Opening struct {
	Stream      uplink.Stream
	Incarnation uplink.Incarnation
	Generation  uint64 // that was asked for

	done    bool
	unsure  bool  // a request failed: what it did is not known
	refused error // why it failed for good
}

// Begin forgets what was before.
func (o *Opening) Begin(stream uplink.Stream, inc uplink.Incarnation, generation uint64) {
	*o = Opening{Stream: stream, Incarnation: inc, Generation: generation}
}

// End says how it went. A refusal for good is kept for those who send on all the same.
func (o *Opening) End(err error) {
	if o.done = err == nil; errors.Is(err, uplink.ErrFenced) {
		o.refused = err
	}
}

// Doubt says that a request failed: before anything else is sent, the far end is looked at again.
func (o *Opening) Doubt() { o.unsure = true }

// Close ends it.
func (o *Opening) Close() { o.done = false }

// Admit says whether a batch may be sent now. Behind a doubt it opens once more with again, which calls Begin and End; when that fails for now, the next
// batch comes to the same point. ErrHole: the stream is not open.
func (o *Opening) Admit(b *uplink.Batch, again func() error) error {
	switch {
	case o.refused != nil && b.Incarnation == o.Incarnation && b.Generation == o.Generation:
		return o.refused
	case !o.done || b.Stream != o.Stream:
		return fmt.Errorf("%w: the stream is not open", uplink.ErrHole)
	case !o.unsure:
		return nil
	}
	if err := again(); err != nil {
		o.done, o.unsure = true, true
		return err
	}
	return nil
}
