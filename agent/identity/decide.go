package identity

import (
	"errors"
	"fmt"
)

// Facts are what decides which incarnation an agent starts as.
type Facts struct {
	Record   *Record // nil: none
	Used     bool    // an agent has worked in state_dir
	Board    Board   // what is readable now
	NewBoard bool    // the operator says that state_dir was moved to this board
	Central  bool    // a central store gives out majors
}

// Action is what an agent does about its incarnation before it starts.
type Action uint8

// The actions.
const (
	Keep     Action = iota
	Begin           // First
	Trust           // keep, though nothing tells whether the board is the same
	NewMajor        // Successor, with a major from the central store where there is one
)

// ErrOtherBoard: state_dir was moved, or copied, to another board (RULES 28).
var ErrOtherBoard = errors.New("state_dir belongs to another board")

// Decide is pure.
func Decide(f Facts) (Action, error) {
	if f.Record == nil {
		return Begin, nil
	}
	switch f.Record.Board.Compare(f.Board) {
	case Same:
		return Keep, nil
	case Unknown:
		if len(f.Record.Board) == 0 || len(f.Board) == 0 {
			return Trust, nil
		}
	}
	if f.Central || f.NewBoard {
		return NewMajor, nil
	}
	return Keep, fmt.Errorf("%w: it is of %s, this is %s; if it was moved here, and the other board will not run with a copy of it, start once with --new-board", ErrOtherBoard, f.Record.Token, Token(f.Board))
}
