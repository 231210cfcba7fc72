package join

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/weirstream/weir/pipeline"
)

// held is a row that waits: its place among those of its key and input, and what is asked of it most.
type held struct {
	time    int64
	pos     pipeline.Position
	index   uint32
	matched bool
	came    int64 // elapsed ns; only with a ttl
}

func (h held) compare(o held) int {
	return cmp.Or(cmp.Compare(h.time, o.time), cmp.Compare(h.pos, o.pos), cmp.Compare(h.index, o.index))
}

const subBytes = 1 + 8 + 8 + 4

func appendSub(dst []byte, side int, h held) []byte {
	dst = append(dst, byte(side))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.time)^1<<63)
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.pos))
	return binary.BigEndian.AppendUint32(dst, h.index)
}

// The flags of a row held.
const (
	flagMatched = 1
	flagCame    = 2
)

// appendHead writes what stands before the slots of a row held.
func appendHead(dst []byte, h held, came bool) []byte {
	flags := byte(0)
	if h.matched {
		flags |= flagMatched
	}
	if !came {
		return append(dst, flags)
	}
	dst = append(dst, flags|flagCame)
	return binary.LittleEndian.AppendUint64(dst, uint64(h.came))
}

// parseHeld reads an entry but for its slots.
func parseHeld(sub, val []byte) (side int, h held, slots []byte, err error) {
	if len(sub) != subBytes || sub[0] > Right || len(val) == 0 || val[0] > flagMatched|flagCame {
		return 0, h, nil, fmt.Errorf("%w: join row of %d bytes under a subkey of %d", ErrState, len(val), len(sub))
	}
	h = held{
		time: int64(binary.BigEndian.Uint64(sub[1:]) ^ 1<<63), pos: pipeline.Position(binary.BigEndian.Uint64(sub[9:])),
		index: binary.BigEndian.Uint32(sub[17:]), matched: val[0]&flagMatched != 0,
	}
	slots = val[1:]
	if val[0]&flagCame != 0 {
		if len(slots) < 8 {
			return 0, h, nil, fmt.Errorf("%w: join row of %d bytes", ErrState, len(val))
		}
		h.came, slots = int64(binary.LittleEndian.Uint64(slots)), slots[8:]
	}
	return int(sub[0]), h, slots, nil
}

// group is a key with its rows, each input's in the order of (event time, position, arrival).
type group struct {
	key  []byte
	rows [2][]held
	// lastPos and lastIndex number the rows of one position. A checkpoint never divides a position.
	lastPos   pipeline.Position
	lastIndex uint32
	due       int64 // the next watermark at which something happens to it
	start     int64 // of a window join: start of the window that ends there
	place     int   // in the agenda
	next      int64 // of fixed windows: start of the next one to fire
	written   bool  // next stands in its table
	sessions  []span
}

// span is a session's first and last event time.
type span struct{ first, last int64 }

func (g *group) empty() bool { return len(g.rows[Left]) == 0 && len(g.rows[Right]) == 0 }

// from is the number of rows of an input whose time is below t.
func (g *group) from(side int, t int64) int {
	i, _ := slices.BinarySearchFunc(g.rows[side], t, func(h held, t int64) int {
		if h.time < t {
			return -1
		}
		return 1 // also for equals: the first of them is wanted
	})
	return i
}

// first is the earliest event time of its rows; it has some.
func (g *group) first() int64 {
	switch l, r := g.rows[Left], g.rows[Right]; {
	case len(l) == 0:
		return r[0].time
	case len(r) == 0:
		return l[0].time
	default:
		return min(l[0].time, r[0].time)
	}
}
