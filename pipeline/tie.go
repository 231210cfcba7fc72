package pipeline

import (
	"bytes"
	"cmp"
	"fmt"
)

// Tie says where a row of a keyed region stands among those of the same place (At): it is what brings the outputs of several instances
// back to the order of one (DESIGN.md, "Keyed regions"). The upper half is the level: 0 for a row that an input row of the region caused, and the
// lower half is that row's number; a step's own level for what its timers made, and the lower half is the timer's number in the Ties of
// its instance.
type Tie uint64

// noTie: the row being emitted has no known cause.
const noTie = ^Tie(0)

// InputTie is the tie of the region's input row with that number.
func InputTie(number int) Tie { return Tie(uint32(number)) }

// Input is the number of the input row that is the cause: the inverse of InputTie. It says nothing of what a timer made.
func (t Tie) Input() int { return int(uint32(t)) }

func (t Tie) level() uint32 { return uint32(t >> 32) }

// Ties are the timers that fired in one instance during a batch. Its goroutine owns it.
type Ties struct {
	timers []firedTimer
	keys   []byte
	_      pad
}

// pad ends what an instance writes for each row, so that it does not share a cache line with what another instance has next to it.
type pad [64]byte

type firedTimer struct {
	deadline, start int64
	from, to        int // key, in Ties.keys
}

// Reset forgets the timers of the last batch.
func (t *Ties) Reset() { t.timers, t.keys = t.timers[:0], t.keys[:0] }

func (t *Ties) key(f firedTimer) []byte { return t.keys[f.from:f.to] }

// CompareTies orders two rows of the same place: -1, 0 or 1. 0 means one cause: the rows come from one instance, in the order of emission.
func CompareTies(a Tie, of *Ties, b Tie, than *Ties) int {
	if c := cmp.Compare(a.level(), b.level()); c != 0 || a.level() == 0 {
		return cmp.Or(c, cmp.Compare(uint32(a), uint32(b)))
	}
	return compareTimers(of, of.timers[uint32(a)], than, than.timers[uint32(b)])
}

func compareTimers(of *Ties, x firedTimer, than *Ties, y firedTimer) int {
	if c := cmp.Or(cmp.Compare(x.deadline, y.deadline), cmp.Compare(x.start, y.start)); c != 0 {
		return c
	}
	return bytes.Compare(of.key(x), than.key(y))
}

// track notes the tie of everything that an Out takes.
type track struct {
	ties  *Ties
	level uint32
	cause Tie
	first int // timers that fired before the present call
	ports [][]Tie
	dead  []Tie
	_     pad
}

// Track has the Out note ties: its step is the level-th (from 1) of a region, in the instance that ties belong to.
func (o *Out) Track(ties *Ties, level int) {
	o.track = &track{ties: ties, level: uint32(level), cause: noTie, ports: make([][]Tie, len(o.Ports))}
}

// Cause says what the next call into the operator is for: a row with this tie. The engine calls it inside regions only.
func (o *Out) Cause(t Tie) { o.track.cause = t }

// CauseTimers says that the next call into the operator fires timers: each names itself with SetTimer before it emits.
func (o *Out) CauseTimers() { o.track.cause, o.track.first = noTie, len(o.track.ties.timers) }

// PortTies are the ties of the rows of a port, and DeadTies those of the dead letters.
func (o *Out) PortTies(port int) []Tie { return o.track.ports[port] }

// DeadTies are the ties of Dead.
func (o *Out) DeadTies() []Tie { return o.track.dead }

func (t *track) reset() {
	t.cause = noTie
	for i := range t.ports {
		t.ports[i] = t.ports[i][:0]
	}
	t.dead = t.dead[:0]
}

func (t *track) emitted(step string, port int) { t.ports[port] = append(t.ports[port], t.known(step)) }

func (t *track) refused(step string) { t.dead = append(t.dead, t.known(step)) }

func (t *track) known(step string) Tie {
	if t.cause == noTie {
		panic("BUG: step " + step + " is keyed and emits from a timer without SetTimer")
	}
	return t.cause
}

// timer notes a timer and makes it the cause. Timers out of order would be merged into another order than that of one instance.
func (t *track) timer(step string, deadline, start int64, key []byte) {
	b := t.ties
	from := len(b.keys)
	b.keys = append(b.keys, key...)
	f := firedTimer{deadline: deadline, start: start, from: from, to: len(b.keys)}
	if n := len(b.timers); n > t.first {
		if c := compareTimers(b, b.timers[n-1], b, f); c > 0 {
			panic(fmt.Sprintf("BUG: step %s fires the timer (%d, %d, %x) behind (%d, %d, %x)", step, deadline, start, key,
				b.timers[n-1].deadline, b.timers[n-1].start, b.key(b.timers[n-1])))
		}
	}
	b.timers = append(b.timers, f)
	t.cause = Tie(t.level)<<32 | Tie(len(b.timers)-1)
}
