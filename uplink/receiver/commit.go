package receiver

import (
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

// request is one HTTP request on its way through the committer.
type request struct {
	wire.Request
	body []byte // checked lines of a send
	// lines counts what the body holds
	lines struct{ records, gaps uint64 }
	done  chan struct{}
	// set before done is closed
	verdict  verdict
	progress uplink.Progress
	rejected []uplink.Rejected
	err      error
	// counts of what was taken, added to the stats when it is durable
	records, gaps, duplicates uint64
}

// errRollBack ends a transaction in which one request must leave no trace.
var errRollBack = errors.New("roll back")

// commitLoop takes all requests that wait into one transaction: many streams share a sync.
func (r *Receiver) commitLoop() {
	group := make([]*request, 0, r.config.MaxGroup)
	for {
		select {
		case q := <-r.queue:
			group = append(group[:0], q)
		case <-r.quit:
			r.refuseWaiting()
			return
		}
		for len(group) < cap(group) {
			select {
			case q := <-r.queue:
				group = append(group, q)
				continue
			default:
			}
			break
		}
		r.commit(group)
		for _, q := range group {
			close(q.done)
		}
		clear(group)
	}
}

func (r *Receiver) refuseWaiting() {
	for {
		select {
		case q := <-r.queue:
			q.err = ErrClosed
			close(q.done)
		default:
			return
		}
	}
}

// commit writes a group. When a request must be rolled back each one gets a transaction of its own.
func (r *Receiver) commit(group []*request) {
	err := r.transact(group)
	if err != nil && len(group) > 1 {
		for i := range group {
			r.commit(group[i : i+1])
		}
		return
	}
	for _, q := range group {
		if err != nil && !errors.Is(err, errRollBack) {
			q.err = err
		}
		if q.err == nil && len(q.rejected) == 0 {
			r.stats.records.Add(q.records)
			r.stats.gaps.Add(q.gaps)
			r.stats.duplicates.Add(q.duplicates)
		}
	}
}

func (r *Receiver) transact(group []*request) error {
	tx, err := r.db.Begin(true)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // after a commit it does nothing
	wrote := false
	for _, q := range group {
		w, err := r.handle(tx, q)
		if err != nil {
			q.err = err
			return errRollBack
		}
		if len(q.rejected) > 0 {
			return errRollBack
		}
		wrote = wrote || w
	}
	if !wrote {
		return nil
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	r.stats.commits.Add(1)
	return nil
}

// handle does one request within a transaction and tells whether it wrote.
func (r *Receiver) handle(tx *bolt.Tx, q *request) (wrote bool, err error) {
	q.err, q.rejected, q.records, q.gaps, q.duplicates = nil, nil, 0, 0, 0
	stream := q.Stream.String()
	state, found, err := readRow(tx, stream)
	if err != nil {
		return false, err
	}
	switch q.Verb {
	case wire.VerbOpen:
		return r.open(tx, q, stream, &state, found)
	case wire.VerbConfirm:
		q.verdict, q.progress = state.fence(found, q.Incarnation, q.Board, q.Generation), state.progress()
		return false, nil
	}
	q.verdict = state.admit(found, q.Incarnation, q.Board, q.Generation, q.Previous, q.Last)
	held := state.seq
	if q.Generation != state.generation {
		held = q.Previous
	}
	q.duplicates = min(held, q.Last) - q.Previous
	if q.verdict != admitted {
		q.progress = state.progress()
		return false, nil
	}
	fresh := freshLines(q.body, held)
	if err := r.take(tx, q, fresh, held+1); err != nil || len(q.rejected) > 0 {
		q.progress = state.progress()
		return false, err
	}
	state.generation, state.seq, state.chain = q.Generation, q.Last, q.Chain
	q.progress = state.progress()
	return true, writeRow(tx, stream, &state)
}

// open fences lower incarnations and inherits the sequence, in one transaction (RULES 23).
func (r *Receiver) open(tx *bolt.Tx, q *request, stream string, state *row, found bool) (bool, error) {
	q.verdict = state.fence(found, q.Incarnation, q.Board, q.Generation)
	if q.verdict == fenced || found && state.inc == q.Incarnation && state.opened == q.Generation {
		q.progress = state.progress()
		return false, nil
	}
	state.inc, state.board, state.opened = q.Incarnation, q.Board, q.Generation
	q.progress = state.progress()
	return true, writeRow(tx, stream, state)
}

// take stores or hands over what is new.
func (r *Receiver) take(tx *bolt.Tx, q *request, fresh []byte, first uint64) error {
	d := Delivery{Stream: q.Stream, Generation: q.Generation, Incarnation: q.Incarnation}
	if r.apply == nil && len(fresh) == len(q.body) { // all of it is new, and it was read and counted when it came
		q.records, q.gaps = q.lines.records, q.lines.gaps
		return r.keep(tx, q, fresh, first)
	}
	err := wire.Lines(fresh, first, q.Last, func(l wire.Line) error {
		if l.Gap {
			q.gaps += l.Last - l.Seq + 1
		} else {
			q.records++
		}
		if r.apply != nil {
			d.Lines = append(d.Lines, l)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if r.apply != nil {
		if q.rejected, err = r.apply(tx, &d); err != nil || len(q.rejected) > 0 {
			return err
		}
	}
	return r.keep(tx, q, fresh, first)
}

// keep stores lines in the file, unless they were handed over and are not to be kept.
func (r *Receiver) keep(tx *bolt.Tx, q *request, fresh []byte, first uint64) error {
	if r.config.Discard {
		return nil
	}
	b, err := tx.Bucket(bucketRecords).CreateBucketIfNotExists([]byte(q.Stream.String()))
	if err != nil {
		return err
	}
	b.FillPercent = 0.95 // keys only rise
	return b.Put(recordKey(q.Generation, first, q.Last), fresh)
}

// freshLines cuts off the lines up to the sequence that is held. A gap that lies across it is shortened. The body was checked.
func freshLines(body []byte, held uint64) []byte {
	for len(body) > 0 {
		end := 0
		for body[end] != '\n' {
			end++
		}
		l, err := wire.ParseLine(body[:end])
		if err != nil || l.Seq > held {
			return body
		}
		body = body[end+1:]
		if l.Last > held {
			line := wire.AppendGap(nil, held+1, l.Last, l.Reason)
			return append(line, body...)
		}
	}
	return nil
}
