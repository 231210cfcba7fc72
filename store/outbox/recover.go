package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/store/log"
)

// recover folds the log's records, in order, into the streams' queues. A record that does not decode although its frame
// was whole is reported; what it held counts as missing, which Whole then finds.
func (o *Outbox) recover(rec *Recovery) error {
	first, last := o.log.First(), o.log.Last()
	if first > last {
		return nil
	}
	r, err := o.log.Reader(first)
	if err != nil {
		return err
	}
	defer r.Close()
	for at := first; at <= last; {
		b, err := r.Next(context.Background())
		if err != nil {
			return err
		}
		if err := o.recoverBlock(b, rec); err != nil {
			return err
		}
		at = b.Last + 1
	}
	for _, s := range o.streams {
		for i := range s.chunks {
			rec.Results += s.chunks[i].count()
		}
		rec.Bytes += s.bytes
	}
	return nil
}

func (o *Outbox) recoverBlock(b *log.Block, rec *Recovery) error {
	if b.Lost {
		rec.Damaged = append(rec.Damaged, fmt.Sprintf("records %d to %d are lost", b.First, b.Last))
	}
	for at, data := range b.Records() {
		err := o.fold(at, data, b.Stamp.Elapsed)
		if errors.Is(err, ErrVersion) {
			return fmt.Errorf("record %d: %w", at, err)
		}
		if err != nil {
			rec.Damaged = append(rec.Damaged, fmt.Sprintf("record %d: %v", at, err))
		}
	}
	return nil
}

// fold applies one record.
func (o *Outbox) fold(at uint64, data []byte, elapsed int64) error {
	kind, body, err := recordKind(data)
	if err != nil {
		return err
	}
	switch kind {
	case kindChunk:
		h, err := decodeChunkHead(body)
		if err != nil {
			return err
		}
		q := o.of(&h.head)
		if q == nil {
			return nil
		}
		q.addChunk(chunk{first: h.first, last: h.last, recorded: h.first, bytes: h.bytes, at: at, chainBefore: h.chainBefore,
			chainLast: h.chainLast, elapsed: elapsed, inc: h.inc})
		q.dropCovered()
	case kindGap:
		g, err := decodeGap(body)
		if err != nil {
			return err
		}
		if q := o.of(&g.head); q != nil && g.last > q.confirmed {
			q.addGap(gap{first: g.first, last: g.last, chain: g.chain, pos: g.pos, reason: g.reason, at: at, inc: g.inc})
		}
	case kindCut:
		c, err := decodeCut(body)
		if err != nil {
			return err
		}
		o.stream(c.uid).cut(c.generation, c.seq, c.chain)
		o.raise(c.inc)
	case kindDrop:
		inc, err := decodeDrop(body)
		if err != nil {
			return err
		}
		for _, s := range o.streams {
			s.drop(inc)
		}
	case kindMarks:
		marks, err := decodeMarks(data[0], body)
		if err != nil {
			return err
		}
		for i := range marks {
			o.stream(marks[i].uid).restoreMark(&marks[i])
		}
	case kindBound:
		b, err := decodeBound(body)
		if err != nil {
			return err
		}
		if q := o.of(&b.head); q != nil {
			q.bind(b.first, b.last)
		}
	case kindRenumber:
		r, err := decodeRenumber(body)
		if err != nil {
			return err
		}
		o.stream(r.uid).renumber(r.from, r.delta)
	case kindForget:
		uid, err := decodeForget(body)
		if err != nil {
			return err
		}
		delete(o.streams, uid)
	case kindSettled:
		uid, seq, err := decodeSettled(body)
		if err != nil {
			return err
		}
		o.stream(uid).settle(seq)
	}
	return nil
}

// of finds the queue that a record belongs to; nil when the record is of a generation that has ended.
func (o *Outbox) of(h *head) *queue {
	s := o.stream(h.uid)
	if s.generation == 0 {
		s.generation = h.generation
	}
	o.raise(h.inc)
	if h.generation < s.generation {
		return nil
	}
	return &s.queue
}

func (o *Outbox) raise(inc Incarnation) {
	if v := uint64(inc.Major)<<32 | uint64(inc.Minor); v > o.inc.Load() {
		o.inc.Store(v)
	}
}
