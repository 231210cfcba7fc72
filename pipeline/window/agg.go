package window

import (
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/state"
)

// AggKind is an aggregate function. All but CountRows skip null arguments.
type AggKind uint8

const (
	CountRows AggKind = iota + 1 // count(): rows
	Count                        // count(x): rows where x is not null
	Sum                          // of numbers; null when there was none
	Avg                          // of numbers, a float; null when there was none
	Min                          // in the order of keys: bool < number < string < bytes < json
	Max
	First // in the order of arrival
	Last
)

var aggNames = [...]string{"", "count", "count", "sum", "avg", "min", "max", "first", "last"}

// ParseAggKind finds an aggregate function by its name in a config; args is how many arguments it was given.
func ParseAggKind(name string, args int) (AggKind, error) {
	if name == "count" && args == 0 {
		return CountRows, nil
	}
	for k := Count; k <= Last; k++ {
		if aggNames[k] != name {
			continue
		}
		if args != 1 {
			return 0, fmt.Errorf("%w: %s takes one argument, found %d", ErrConfig, name, args)
		}
		return k, nil
	}
	return 0, fmt.Errorf("%w: unknown aggregate %q, want count, sum, avg, min, max, first or last", ErrConfig, name)
}

// String is the name in a config.
func (k AggKind) String() string {
	if int(k) < len(aggNames) {
		return aggNames[k]
	}
	return fmt.Sprintf("agg(%d)", uint8(k))
}

// Agg is one aggregate of a window: Kind over Arg, its result in Slot of the rows that come out. CountRows has no Arg.
type Agg struct {
	Kind AggKind
	Arg  *expr.Program
	Slot int
}

// accumulators are the aggregates of an operator, laid out one behind the other in an entry (FORMAT.md).
type accumulators struct {
	aggs  []accumulator
	args  []*expr.Program // each once, however many aggregates have it
	size  int             // of an entry
	texts *state.Table
	sub   [1]byte // scratch: subkey and text for texts
	text  []byte
	// sumWraps is the planted fault "sum wraps like int64". Only tests set it.
	sumWraps bool
}

// accumulator is one aggregate: where it begins in an entry, and which of the arguments it takes.
type accumulator struct {
	kind    AggKind
	at, arg int
}

// firingsBytes is the head of an entry: how often the window fired for the key, uint32.
const firingsBytes = 4

func newAccumulators(aggs []Agg) accumulators {
	s := accumulators{size: firingsBytes}
	for _, a := range aggs {
		s.aggs = append(s.aggs, accumulator{kind: a.Kind, at: s.size, arg: s.argument(a)})
		s.size += accBytes(a.Kind)
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

func accBytes(k AggKind) int {
	switch k {
	case CountRows, Count:
		return 8
	case Sum, Avg:
		return sumBytes
	default:
		return pickBytes
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
		switch v := &args[a.arg]; {
		case v.Kind == pipeline.Error:
			return a.kind.String() + ": " + v.Str
		case (a.kind == Sum || a.kind == Avg) && !v.IsNumber() && !v.IsNull():
			return a.kind.String() + ": found a " + v.Kind.String() + ", want a number"
		}
	}
	return ""
}

// add counts the arguments of a row in. entry is the writable entry of key.
func (s *accumulators) add(key, entry []byte, args []pipeline.Value) {
	for i := range s.aggs {
		a := &s.aggs[i]
		acc := entry[a.at:]
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
		default:
			s.pick(a.kind, i, key, acc, v)
		}
	}
}

func increment(acc []byte) {
	binary.LittleEndian.PutUint64(acc, binary.LittleEndian.Uint64(acc)+1)
}

// result gives the value of one aggregate; of kind Error when it does not fit.
func (s *accumulators) result(i int, key, entry []byte, out *pipeline.Out) pipeline.Value {
	acc := entry[s.aggs[i].at:]
	switch s.aggs[i].kind {
	case CountRows, Count:
		return pipeline.UintValue(binary.LittleEndian.Uint64(acc))
	case Sum:
		if s.sumWraps {
			return pipeline.IntValue(int64(binary.LittleEndian.Uint64(acc)))
		}
		return sumResult(acc)
	case Avg:
		return avgResult(acc)
	default:
		v := picked(acc)
		if isText(v.Kind) {
			s.sub[0] = byte(i)
			text, _ := s.texts.GetSub(key, s.sub[:])
			v.Str = out.Text(text)
		}
		return v
	}
}
