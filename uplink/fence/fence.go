// Package fence is the rule by which endpoints that keep their own progress upstream admit incarnations and go on with a run
// (RULES 23 and 28): the same for every such sink.
package fence

import (
	"fmt"

	"github.com/weirstream/weir/uplink"
)

// State is what the upstream keeps of a stream: who opened it, and the end of its unbroken run. The zero value is an empty upstream.
type State struct {
	Incarnation uplink.Incarnation
	Board       string
	Opened      uint64 // highest generation that was opened; ahead of Generation until its first batch
	Generation  uint64 // of the run; 0: nothing was ever opened
	Seq, Chain  uint64 // end of the run
}

// Admit says whether an incarnation of a board may open. where names the upstream in the error, which is ErrFenced.
func (s *State) Admit(where string, inc uplink.Incarnation, generation uint64, board string) error {
	if inc.Less(s.Incarnation) || generation < s.Opened {
		return s.fenced(where)
	}
	if s.Opened > 0 && inc == s.Incarnation && board != s.Board {
		return fmt.Errorf("%w: incarnation %s is another board's", uplink.ErrFenced, s.Incarnation)
	}
	return nil
}

func (s *State) fenced(where string) error {
	return &uplink.Fenced{Where: where, Generation: s.Opened, Incarnation: s.Incarnation, Board: s.Board}
}

// OpenedBy says whether this very incarnation, generation and board opened last: then nothing is to be written.
func (s *State) OpenedBy(inc uplink.Incarnation, generation uint64, board string) bool {
	return s.Incarnation == inc && s.Opened == generation && s.Board == board
}

// Take gives the state behind an opening: the sequence is inherited (RULES 23).
func (s *State) Take(inc uplink.Incarnation, generation uint64, board string) {
	s.Incarnation, s.Opened, s.Board = inc, max(generation, s.Opened), board
	if s.Generation == 0 {
		s.Generation = generation
	}
}

// Continues gives the end of the run that a batch goes on from; what lies up to it is left out. ErrHole: the batch does not continue
// the run, or its incarnation did not open. ErrFenced: a higher one opened.
func (s *State) Continues(where string, b *uplink.Batch) (held uint64, err error) {
	switch {
	case b.Incarnation.Less(s.Incarnation) || b.Generation < s.Opened:
		return 0, s.fenced(where)
	case b.Incarnation != s.Incarnation || b.Generation != s.Opened:
		return 0, fmt.Errorf("%w: incarnation %s, generation %d did not open", uplink.ErrHole, b.Incarnation, b.Generation)
	case b.Generation == s.Generation && b.Previous > s.Seq && (s.Seq > 0 || b.Generation == 1),
		b.Generation != s.Generation && b.Generation == 1 && b.Previous > 0:
		return 0, fmt.Errorf("%w: %s ends at %d", uplink.ErrHole, where, s.Seq)
	case b.Generation == s.Generation && s.Seq > 0:
		return s.Seq, nil
	}
	return b.Previous, nil // a generation that begins may begin anywhere
}

// Progress is what Open answers.
func (s *State) Progress() uplink.Progress {
	return uplink.Progress{Generation: s.Generation, Incarnation: s.Incarnation, Seq: s.Seq, Chain: s.Chain}
}
