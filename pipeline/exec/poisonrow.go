package exec

import (
	"cmp"
	"slices"

	"github.com/weirstream/weir/pipeline"
)

// A record may give a step many rows (an array flattened before it, a message of many lines). A step hands on what it made of the first ones before it
// has seen the last (spill.go), so at a panic they cannot be taken back: results may have left. Therefore a row is the unit: what a row makes goes on as a
// whole or not at all; the rows before the one that fails stand; it and those behind it of the same record become dead letters, at one go: a record of
// thousands of rows that all fail must not cost as many restarts. Which row fails first follows from the journal alone, so all replays agree, with any
// bound and any number of instances.

// ordinal numbers the rows that a step gets of one record, in the total order.
type ordinal struct {
	pos     pipeline.Position
	row, of int
	first   int // of the record's rows in the region's input
	tie     pipeline.Tie
}

func (o *ordinal) count(r *pipeline.Row) {
	switch {
	case r.Phase != pipeline.During:
	case r.Pos == o.pos:
		o.row++
	default:
		o.pos, o.row = r.Pos, 0
	}
}

// countTied is count for an instance of a region, which sees its own rows only: the number comes from the row of the region's input that is the cause.
func (o *ordinal) countTied(r *pipeline.Row, cause pipeline.Tie, input []pipeline.Row) {
	switch {
	case r.Phase != pipeline.During:
		return
	case r.Pos == o.pos && cause == o.tie:
		o.of++
		return
	case r.Pos != o.pos:
		o.first = cause.Input()
		for o.first > 0 && input[o.first-1].Pos == r.Pos {
			o.first--
		}
	}
	o.pos, o.tie, o.row, o.of = r.Pos, cause, cause.Input()-o.first, 0
}

func (p Poison) compare(q Poison) int {
	return cmp.Or(cmp.Compare(p.Position, q.Position), cmp.Compare(p.Row, q.Row), cmp.Compare(p.Of, q.Of))
}

// skipped tells whether the present row is not tried: it or one before it of its record fails.
func (s *step) skipped() bool {
	i, _ := slices.BinarySearchFunc(s.skips, s.nth.pos, func(p Poison, at pipeline.Position) int { return cmp.Compare(p.Position, at) })
	if i == len(s.skips) || s.skips[i].Position != s.nth.pos {
		return false
	}
	first := s.skips[i]
	return first.compare(Poison{Position: s.nth.pos, Row: s.nth.row, Of: s.nth.of}) <= 0
}
