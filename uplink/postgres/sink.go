// Package postgres delivers a stream into a table of PostgreSQL, exactly once: the rows and the stream's progress row are
// written by one statement, which is one transaction (FORMAT.md). The progress row moves by compare-and-swap, so that a batch
// that was delayed, repeated or cut elsewhere writes nothing twice, and a fenced incarnation writes nothing at all.
//
// It keeps nothing on flash. A Sink belongs to one sender goroutine and starts none of its own; the driver's last one, which tells
// the server that a request was given up, ends by itself within 15 s.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
)

// Sink implements uplink.Endpoint.
type Sink struct {
	config Config
	conn   *pgconn.PgConn
	table  *table // of this connection: checked, statement prepared
	stream uplink.Stream
	row    row // as it was last seen

	fault faults
}

// New checks the configuration. It connects when Open is called, and reads the DSN then: an unreachable server or a bad
// credential does not keep the agent from starting.
func New(c Config) (*Sink, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return &Sink{config: c}, nil
}

// Guarantee is exactly-once.
func (s *Sink) Guarantee() uplink.Guarantee { return uplink.ExactlyOnce }

// Open connects, checks the table (or makes it), fences lower incarnations and inherits the sequence in one statement (RULES 23).
func (s *Sink) Open(ctx context.Context, stream uplink.Stream, inc uplink.Incarnation, generation uint64) (uplink.Progress, error) {
	if err := s.connect(ctx); err != nil {
		return uplink.Progress{}, err
	}
	s.stream = stream
	if s.table == nil {
		t, err := s.prepare(ctx)
		if err != nil {
			return uplink.Progress{}, s.refusal(err)
		}
		s.table = t
	}
	r, found, err := s.fence(ctx, inc, generation)
	if err != nil {
		return uplink.Progress{}, s.refusal(err)
	}
	if !found {
		if r, found, err = s.read(ctx); err != nil {
			return uplink.Progress{}, s.refusal(err)
		}
		if found && r.fence(inc, s.config.Board, generation) {
			return uplink.Progress{}, r.fenced(s.config.Schema)
		}
		return uplink.Progress{}, fmt.Errorf("open %s: %w", s.stream, uplink.ErrContended)
	}
	s.row = r
	return r.progress(), nil
}

// casTries bounds how often a batch is tried when another sender of the stream moves the progress row meanwhile. Behind it lies ErrContended, and the sender's back-off.
const casTries = 4

// Send writes what the table lacks of a batch, and the progress, in one statement.
func (s *Sink) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	if s.conn == nil || s.table == nil || s.conn.IsClosed() {
		return uplink.Answer{}, fmt.Errorf("%w: not connected", uplink.ErrHole)
	}
	if s.fault.noFence {
		return s.writeUnfenced(ctx, b)
	}
	seen := false // the row was read in this call
	for range casTries {
		held, verdict := s.row.admit(b.Incarnation, s.config.Board, b.Generation, b.Previous, b.Last)
		if verdict != admitted && seen {
			return s.answer(held, verdict)
		}
		if verdict == admitted {
			ans, moved, err := s.write(ctx, b, held)
			if err != nil || moved || len(ans.Rejected) > 0 && seen { // nothing is rejected that may be held already
				return ans, s.refusal(err)
			}
		}
		r, found, err := s.read(ctx)
		if err != nil {
			return uplink.Answer{}, s.refusal(err)
		}
		if !found {
			return uplink.Answer{}, fmt.Errorf("%w: the progress row is gone", uplink.ErrHole)
		}
		s.row, seen = r, true
	}
	return uplink.Answer{}, fmt.Errorf("send %d..%d: %w", b.First, b.Last, uplink.ErrContended)
}

func (s *Sink) answer(held uint64, v verdict) (uplink.Answer, error) {
	switch v {
	case fenced:
		return uplink.Answer{}, s.row.fenced(s.config.Schema)
	case hole:
		return uplink.Answer{}, fmt.Errorf("%w: the table's run ends at %d of generation %d", uplink.ErrHole, s.row.seq, s.row.generation)
	}
	return uplink.Answer{Durable: held}, nil
}

// write runs the statement on what lies behind held. moved is false when the progress row was not where it was last seen: then
// nothing was written.
func (s *Sink) write(ctx context.Context, b *uplink.Batch, held uint64) (ans uplink.Answer, moved bool, err error) {
	t := s.table
	if rejected := t.fill(b, held); len(rejected) > 0 {
		return uplink.Answer{Durable: held, Rejected: rejected}, false, nil
	}
	next := s.row
	next.generation, next.seq, next.chain = b.Generation, b.Last, b.Chain()
	if s.fault.beforeWrite != nil {
		s.fault.beforeWrite()
	}
	if s.fault.apart {
		return s.writeApart(ctx, next)
	}
	n, err := s.exec(ctx, t.params(s.stream.String(), &s.row, &next))
	if err != nil || n == 0 {
		return uplink.Answer{}, false, err
	}
	s.row = next
	return uplink.Answer{Durable: b.Last}, true, nil
}

// exec runs the prepared statement; it gives the number of progress rows that moved.
func (s *Sink) exec(ctx context.Context, params [][]byte) (int, error) {
	res := s.conn.ExecPrepared(ctx, statementName, params, s.table.formats, nil).Read()
	if res.Err != nil {
		return 0, res.Err
	}
	if len(res.Rows) != 1 || len(res.Rows[0]) != 1 {
		return 0, errors.New("server answered something else than a count")
	}
	n, err := strconv.Atoi(string(res.Rows[0][0]))
	if err != nil {
		return 0, fmt.Errorf("server answered something else than a count: %w", err)
	}
	return n, nil
}

// Confirm gives the end of the run: what Send accepted was committed.
func (s *Sink) Confirm(context.Context) (uint64, error) { return s.row.seq, nil }

// Close ends the connection.
func (s *Sink) Close() error {
	s.drop()
	return nil
}

// gapReason is what a gap says of itself, without what text columns cannot hold.
func gapReason(r *pipeline.Result) []byte { return cleanText(r.Payload) }
