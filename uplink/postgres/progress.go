package postgres

import (
	"context"
	"fmt"
	"strconv"

	"github.com/weirstream/weir/uplink"
)

// row is a stream's progress row. It is keyed by stream, without incarnation (RULES 23).
type row struct {
	generation uint64 // of the run; 0 while nothing was ever taken
	opened     uint64 // highest generation that was opened; ahead of generation until its first batch
	inc        uplink.Incarnation
	board      string
	seq, chain uint64
}

// rowVersion is the version of the progress row that this code reads and writes.
const rowVersion = 1

// progress is what a sender is told. Before the first batch ever, the run is an empty one of the opened generation.
func (r *row) progress() uplink.Progress {
	p := uplink.Progress{Generation: r.generation, Incarnation: r.inc, Seq: r.seq, Chain: r.chain}
	if r.generation == 0 {
		p.Generation = r.opened
	}
	return p
}

// fence tells whether a sender may not speak for the stream: a lower incarnation, an equal one of another board (RULES 28), a
// generation that has ended.
func (r *row) fence(inc uplink.Incarnation, board string, generation uint64) bool {
	return inc.Less(r.inc) || inc == r.inc && board != r.board || generation < r.opened
}

func (r *row) fenced(schema string) error {
	return &uplink.Fenced{Where: schema + "." + progressTable, Generation: r.opened, Incarnation: r.inc, Board: r.board}
}

// verdict is what admit says of a batch.
type verdict uint8

const (
	admitted verdict = iota
	known            // nothing new in it: success
	fenced
	hole
)

// admit says what becomes of a batch, and up to where its sequences are held. A generation that was opened and has no batch
// yet takes any start, the first one begins at 1.
func (r *row) admit(inc uplink.Incarnation, board string, generation, previous, last uint64) (held uint64, v verdict) {
	switch {
	case r.fence(inc, board, generation):
		return 0, fenced
	case r.inc != inc || generation != r.opened:
		return 0, hole // it has not opened: what it assumes is not known
	case generation != r.generation:
		if generation == 1 && previous != 0 {
			return 0, hole
		}
		return previous, admitted
	case previous > r.seq:
		return r.seq, hole
	case last <= r.seq:
		return r.seq, known
	}
	return r.seq, admitted
}

// fence writes the incarnation unless a higher one, or an equal one of another board, is there; found is false then.
func (s *Sink) fence(ctx context.Context, inc uplink.Incarnation, generation uint64) (row, bool, error) {
	return s.one(ctx, openSQL(s.config.Schema), []byte(s.stream.String()), number(generation), number(uint64(inc.Major)), number(uint64(inc.Minor)),
		[]byte(s.config.Board))
}

func (s *Sink) read(ctx context.Context) (row, bool, error) {
	return s.one(ctx, readSQL(s.config.Schema), []byte(s.stream.String()))
}

// one runs a statement that gives at most one progress row.
func (s *Sink) one(ctx context.Context, sql string, params ...[]byte) (r row, found bool, err error) {
	res := s.conn.ExecParams(ctx, sql, params, nil, nil, nil).Read()
	if res.Err != nil || len(res.Rows) == 0 {
		return r, false, res.Err
	}
	r, err = parseRow(res.Rows[0])
	return r, err == nil, err
}

func parseRow(f [][]byte) (r row, err error) {
	const fields = 8
	if len(f) != fields {
		return r, fmt.Errorf("progress row of %d columns, want %d", len(f), fields)
	}
	var n [6]uint64
	for i := range n {
		if n[i], err = strconv.ParseUint(string(f[i]), 10, 63); err != nil {
			return r, fmt.Errorf("progress row: %w", err)
		}
	}
	if n[0] != rowVersion {
		return r, fmt.Errorf("progress row of version %d, this weir knows %d", n[0], rowVersion)
	}
	r.opened, r.generation, r.seq = n[1], n[2], n[5]
	r.inc = uplink.Incarnation{Major: uint32(n[3]), Minor: uint32(n[4])}
	r.board = string(f[6])
	if r.chain, err = strconv.ParseUint(string(f[7]), 16, 64); err != nil {
		return r, fmt.Errorf("progress row: %w", err)
	}
	return r, nil
}

func number(n uint64) []byte { return strconv.AppendUint(nil, n, 10) }
