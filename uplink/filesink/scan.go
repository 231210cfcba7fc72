package filesink

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/weirstream/weir/uplink"
)

// state is what a file says.
type state struct {
	found      bool // the file has an opening
	stream     string
	inc        uplink.Incarnation
	generation uint64 // of the run
	opened     uint64 // highest generation that was opened
	seq, chain uint64
	end        int64 // where the whole lines end
	unsure     int64 // lines from here on may not be durable: the last batch
	damaged    int   // breaks among lines that had been synced
}

// scanBufferBytes: an agent reads each of its files once, at its start, and the memory of start-up is what an idle one would keep.
const scanBufferBytes = 32 << 10

// lineMax bounds a line; a longer one is damage.
const lineMax = 64 << 20

// piece is a whole line with its place, or a break (nil text parsed).
type piece struct {
	line
	at, end int64
}

// breakAt is a place where the run does not go on.
type breakAt struct {
	at      int64
	pieces  int    // whole lines before it
	next    uint64 // batch of the whole line behind it, 0 when none follows
	isFinal bool
}

// scan reads a file from its beginning. A batch is begun only when the one before is synced, so that a broken line behind which
// another batch follows was damaged later, while one within the last batch is a torn tail, which is not part of the state.
func scan(r io.Reader) (state, error) {
	in := bufio.NewReaderSize(r, scanBufferBytes)
	var pieces []piece
	var breaks []breakAt
	var offset int64
	for {
		text, err := readLine(in)
		if len(text) == 0 && err != nil {
			if !errors.Is(err, io.EOF) {
				return state{}, fmt.Errorf("read sink file: %w", err)
			}
			break
		}
		at := offset
		offset += int64(len(text))
		l, perr := line{}, errLine
		if text[len(text)-1] == '\n' {
			l, perr = parse(text[:len(text)-1])
		}
		broken := perr != nil
		if !broken && len(pieces) > 0 {
			broken = !follows(&pieces[len(pieces)-1].line, &l)
		}
		if broken && (len(breaks) == 0 || breaks[len(breaks)-1].pieces != len(pieces)) {
			breaks = append(breaks, breakAt{at: at, pieces: len(pieces)})
		}
		if perr == nil {
			pieces = compact(append(pieces, piece{line: l, at: at, end: offset}), breaks)
		}
	}
	return conclude(pieces, breaks), nil
}

// compact forgets lines that no decision needs any more: while nothing is broken only the last batch and the line
// before it matter.
func compact(pieces []piece, breaks []breakAt) []piece {
	n := len(pieces)
	if len(breaks) > 0 || n < 4096 {
		return pieces
	}
	first := n - 1
	for first > 0 && pieces[first-1].batch == pieces[n-1].batch && !pieces[first-1].open {
		first--
	}
	if first <= 1 {
		return pieces
	}
	// The first line stays for its stream.
	return append(pieces[:1], pieces[first-1:]...)
}

// follows tells whether l continues the run behind p.
func follows(p, l *line) bool {
	if l.open {
		return l.generation >= p.generation && !l.inc.Less(p.inc)
	}
	if l.generation != p.generation {
		return l.generation > p.generation
	}
	return l.seq == p.last+1 || p.open && p.last == 0
}

// conclude decides what the file holds.
func conclude(pieces []piece, breaks []breakAt) (s state) {
	if len(pieces) == 0 || !pieces[0].open || len(breaks) > 0 && breaks[0].pieces == 0 {
		return s
	}
	final := pieces[len(pieces)-1]
	keep := len(pieces)
	for _, b := range breaks {
		if b.pieces == len(pieces) {
			continue // a torn tail: behind every whole line
		}
		if next := pieces[b.pieces]; !final.open && !next.open && next.batch == final.batch && next.generation == final.generation {
			keep = min(keep, b.pieces)
			continue
		}
		s.damaged++
	}
	pieces = pieces[:keep]
	s.found, s.stream = true, pieces[0].stream
	for i := range pieces {
		s.step(&pieces[i])
	}
	return s
}

// step takes one whole line into the state.
func (s *state) step(p *piece) {
	s.inc, s.end = p.inc, p.end
	switch {
	case p.open:
		s.unsure = p.at
		if s.opened == 0 { // the opening of a file carries the run over
			s.generation, s.seq, s.chain = p.generation, p.last, p.chain
		}
		s.opened = max(s.opened, p.generation)
	default:
		if p.seq == p.batch || p.generation != s.generation {
			s.unsure = p.at
		}
		s.generation, s.seq, s.chain = p.generation, p.last, p.chain
		s.opened = max(s.opened, p.generation)
	}
}

// readLine reads up to and including the next line end, or to the end of the file.
func readLine(in *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(text) < lineMax {
			text = append(text, part...)
		} else {
			text = append(text[:lineMax], part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, err
		}
	}
}
