package window

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/counter"
	"github.com/weirstream/weir/pipeline/expr"
)

// Agg is one aggregate of a window: Kind over Arg, its result in Slot of the rows that come out. CountRows has no Arg. Param is
// the second argument of those that have one: the percentage of Percentile, the limit of Collect.
type Agg struct {
	Kind  AggKind
	Arg   *expr.Program
	Param float64
	Slot  int
}

func (a Agg) validate() error {
	switch {
	case a.Kind < CountRows || a.Kind >= aggKindEnd:
		return fmt.Errorf("%s is unknown", a.Kind)
	case a.Kind != CountRows && a.Arg == nil:
		return fmt.Errorf("%s lacks its argument", a.Kind)
	case a.Kind.CheckParam(a.Param) != "":
		return errors.New(a.Kind.CheckParam(a.Param))
	}
	return nil
}

// accumulators are the aggregates of an operator, laid out one behind the other in an entry (FORMAT.md). What does not fit a
// fixed size lies in the tables of a side. An accumulator is a monoid: what a fresh entry merges with is that; merging is
// associative, and what add does over many entries that are merged is what it does over one, up to the rounding of floats.
// An operator merges in the order of time (pane by pane), so the rounding is the same in each replay.
type accumulators struct {
	aggs  []accumulator
	args  []*expr.Program // each once, however many aggregates have it
	size  int             // of an entry
	state side            // what is in checkpoints
	sub   [1]byte         // scratch: subkey of an aggregate
	text  []byte          // scratch: text, element or value
	fault aggFault

	have, more, all []bucket // scratch of sum
}

// aggFault is a mistake planted by a test.
type aggFault struct {
	sumWraps   bool // a sum wraps like int64
	unweighted bool // merging variances forgets how far the means are apart
	resetBlind bool // an increase takes each fall for a step down
	arrival    bool // merging takes first and last by the order of merging
	unaligned  bool // merging takes the buckets of a finer sketch for those of a coarser one
	unseen     bool // merging forgets the registers of distinct
}

// accumulator is one aggregate: where it begins in an entry, which of the arguments it takes. Aggregates that need the same
// of the same argument (median and percentiles, stddev and variance, increase and rate) share: owner is the first of them.
type accumulator struct {
	kind    AggKind
	param   float64
	at, arg int
	owner   int
	numeric bool // kind.Numeric()
}

// cell is one set of accumulators: its entry, writable where something is added, and the key and side where the rest of it lies.
type cell struct {
	side  *side
	key   []byte
	entry []byte
}

// place is where an added row stands: the time by which the window orders it (ms), and the journal position it came from.
type place struct {
	time int64
	pos  pipeline.Position
}

// firingsBytes is the head of an entry: how often the window fired for the key, uint32. Accumulators leave it alone.
const firingsBytes = 4

func newAccumulators(aggs []Agg) *accumulators {
	s := &accumulators{size: firingsBytes}
	for i, a := range aggs {
		n := accumulator{kind: a.Kind, param: a.Param, arg: s.argument(a), owner: i, numeric: a.Kind.Numeric()}
		if o := s.shared(n); o >= 0 {
			n.owner, n.at = o, s.aggs[o].at
		} else {
			n.at = s.size
			s.size += accBytes(a.Kind)
		}
		s.aggs = append(s.aggs, n)
	}
	return s
}

// argument gives the place of an aggregate's argument. Programs with equal text mean the same.
func (s *accumulators) argument(a Agg) int {
	if a.Kind == CountRows {
		return 0
	}
	for i, have := range s.args {
		if have.String() == a.Arg.String() {
			return i
		}
	}
	s.args = append(s.args, a.Arg)
	return len(s.args) - 1
}

// shared gives the aggregate that n may share with, -1 for none.
func (s *accumulators) shared(n accumulator) int {
	f := n.kind.family()
	if f == familyNone {
		return -1
	}
	for i, a := range s.aggs {
		if a.owner == i && a.arg == n.arg && a.kind.family() == f {
			return i
		}
	}
	return -1
}

func accBytes(k AggKind) int {
	switch k {
	case CountRows, Count:
		return 8
	case Sum, Avg:
		return sumBytes
	case Min, Max:
		return pickBytes
	case First, Last:
		return placedBytes
	case Distinct:
		return distinctBytes
	case Collect:
		return collectBytes
	}
	switch k.family() {
	case familyMoments:
		return momentsBytes
	case familyQuantiles:
		return quantilesBytes
	default:
		return counterBytes
	}
}

// arguments evaluates what a row adds. When it cannot be used, refusal says why.
func (s *accumulators) arguments(slots []pipeline.Value, args []pipeline.Value) (refusal string) {
	for i, arg := range s.args {
		args[i] = arg.Eval(slots)
	}
	for i := range s.aggs {
		a := &s.aggs[i]
		if a.kind == CountRows {
			continue
		}
		if v := &args[a.arg]; v.Kind == pipeline.Error || a.numeric && v.Kind != pipeline.Null && (v.Kind != pipeline.Float || v.Num>>63 != 0) {
			if why := a.kind.refuses(v); why != "" {
				return a.kind.String() + ": " + why
			}
		}
	}
	return ""
}

// refuses tells what is wrong with an argument that is not null and, where kind is numeric, not plainly a good one.
func (k AggKind) refuses(v *pipeline.Value) string {
	switch {
	case v.Kind == pipeline.Error:
		return v.Str
	case !v.IsNumber():
		return "found a " + v.Kind.String() + ", want a number"
	case k.family() == familyCounter && !counter.Valid(*v):
		return "found a negative number, a counter is 0 or more"
	}
	return ""
}

// add counts the arguments of a row in.
func (s *accumulators) add(c cell, args []pipeline.Value, at place) {
	for i := range s.aggs {
		a := &s.aggs[i]
		if a.owner != i {
			continue
		}
		acc := c.entry[a.at:]
		if a.kind == CountRows {
			increment(acc)
			continue
		}
		v := args[a.arg]
		switch {
		case v.Kind == pipeline.Null:
		case a.kind == Count:
			increment(acc)
		case a.kind <= Avg:
			addToSum(acc, v)
		case a.kind <= Last:
			s.pick(a.kind, i, c, acc, v, at.pos)
		default:
			s.addMore(i, c, acc, v, at)
		}
	}
}

// addMore is add for the aggregates that are not among the oldest: it keeps add small.
func (s *accumulators) addMore(i int, c cell, acc []byte, v pipeline.Value, at place) {
	switch s.aggs[i].kind {
	case Distinct:
		s.see(i, c, acc, v)
		return
	case Collect:
		s.collect(i, c, acc, v, at.pos)
		return
	}
	switch s.aggs[i].kind.family() {
	case familyMoments:
		addToMoments(acc, v)
	case familyQuantiles:
		s.addToQuantiles(i, c, acc, v)
	case familyCounter:
		s.addSample(acc, sample{v, at.time})
	}
}

// merge adds all of src to dst; src is only read, and its key must not be dst's on the same side. Times of src are at or behind those
// of dst where the kind of window has them apart. dst.entry stays valid.
func (s *accumulators) merge(dst, src cell) {
	for i := range s.aggs {
		a := &s.aggs[i]
		if a.owner != i {
			continue
		}
		to, from := dst.entry[a.at:], src.entry[a.at:]
		switch a.kind {
		case CountRows, Count:
			binary.LittleEndian.PutUint64(to, binary.LittleEndian.Uint64(to)+binary.LittleEndian.Uint64(from))
		case Sum, Avg:
			mergeSum(to, from)
		case Min, Max, First, Last:
			s.mergePicked(a.kind, i, dst, src)
		case Distinct:
			s.mergeSeen(i, dst, src)
		case Collect:
			s.mergeCollected(i, dst, src)
		default:
			switch a.kind.family() {
			case familyMoments:
				s.mergeMoments(to, from)
			case familyQuantiles:
				s.mergeQuantiles(i, dst, src)
			case familyCounter:
				s.mergeSamples(to, from)
			}
		}
	}
}

func increment(acc []byte) {
	binary.LittleEndian.PutUint64(acc, binary.LittleEndian.Uint64(acc)+1)
}

// result gives the value of one aggregate; of kind Error when it does not fit. c.entry is only read.
func (s *accumulators) result(i int, c cell, out *pipeline.Out) pipeline.Value {
	a := &s.aggs[i]
	acc := c.entry[a.at:]
	switch a.kind {
	case CountRows, Count:
		return pipeline.UintValue(binary.LittleEndian.Uint64(acc))
	case Sum:
		if s.fault.sumWraps {
			return pipeline.IntValue(int64(binary.LittleEndian.Uint64(acc)))
		}
		return sumResult(acc)
	case Avg:
		return avgResult(acc)
	case Min, Max, First, Last:
		v := picked(acc)
		if isText(v.Kind) {
			text, _ := c.side.texts.GetSub(c.key, s.subkey(i))
			v.Str = out.Text(text)
		}
		return v
	case Distinct:
		return s.distinct(i, c, acc)
	case Collect:
		return s.collected(i, c, out)
	case Median:
		return s.quantile(a.owner, c, acc, 50)
	case Percentile:
		return s.quantile(a.owner, c, acc, a.param)
	case Increase:
		return sumResult(acc)
	case Rate:
		return rate(acc)
	}
	return momentsResult(a.kind, acc)
}

// subkey is the place of aggregate i in the tables of a side, valid until the next call.
func (s *accumulators) subkey(i int) []byte {
	s.sub[0] = byte(i)
	return s.sub[:]
}

// number is a numeric value as a float64, rounded to nearest beyond 2^53.
func number(v pipeline.Value) float64 {
	f, ok := v.AsFloat()
	if !ok {
		panic(fmt.Sprintf("BUG: a %s reaches a numeric aggregate", v.Kind))
	}
	return f
}
