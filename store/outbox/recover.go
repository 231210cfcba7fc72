package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/store/log"
)

// recover opens the logs that are there. A record that does not decode although its frame was whole is reported; what it held
// counts as missing, which Whole then finds.
func (o *Outbox) recover(rec *Recovery) error {
	dirs, err := o.streamDirs()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		s, known := newStream(o, ""), len(rec.Damaged)
		if err := s.openLog(dir, rec); err != nil {
			return err
		}
		for i := known; i < len(rec.Damaged); i++ { // the first whole record tells whose it is
			rec.Damaged[i] = fmt.Sprintf("sink %s: %s", cmp.Or(s.uid, "in "+dir), rec.Damaged[i])
		}
		if s.uid == "" || s.forgotten { // made and never used, or given up: it is opened again when somebody asks for it
			if err := s.closeLog(); err != nil {
				return err
			}
			continue
		}
		if streamDir(o.o.Dir, s.uid) != dir {
			return errors.Join(corrupt(fmt.Sprintf("%s holds the stream %s", dir, s.uid)), s.closeLog())
		}
		o.streams[s.uid] = s
		for i := range s.chunks {
			rec.Results += s.chunks[i].count()
		}
		rec.Bytes += s.bytes
	}
	return nil
}

// recover folds the records of the stream's log, in order, into its queue.
func (s *Stream) recover(rec *Recovery) error {
	first, last := s.log.First(), s.log.Last()
	if first > last {
		return nil
	}
	r, err := s.log.Reader(first)
	if err != nil {
		return err
	}
	defer r.Close()
	for at := first; at <= last; {
		b, err := r.Next(context.Background())
		if err != nil {
			return err
		}
		if err := s.recoverBlock(b, rec); err != nil {
			return err
		}
		at = b.Last + 1
	}
	return nil
}

func (s *Stream) recoverBlock(b *log.Block, rec *Recovery) error {
	if b.Lost {
		rec.Damaged = append(rec.Damaged, fmt.Sprintf("records %d to %d are lost", b.First, b.Last))
	}
	for at, data := range b.Records() {
		err := s.fold(at, data, b.Stamp.Elapsed)
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
func (s *Stream) fold(at uint64, data []byte, elapsed int64) error {
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
		if ok, err := s.belongs(&h.head); !ok {
			return err
		}
		s.addChunk(chunk{first: h.first, last: h.last, recorded: h.first, bytes: h.bytes, at: at, chainBefore: h.chainBefore,
			chainLast: h.chainLast, elapsed: elapsed, inc: h.inc})
		s.dropCovered()
	case kindGap:
		g, err := decodeGap(body)
		if err != nil {
			return err
		}
		if ok, err := s.belongs(&g.head); !ok {
			return err
		}
		if g.last > s.confirmed {
			s.addGap(gap{first: g.first, last: g.last, chain: g.chain, pos: g.pos, reason: g.reason, at: at, inc: g.inc})
		}
	case kindCut:
		c, err := decodeCut(body)
		if err != nil {
			return err
		}
		if err := s.named(c.uid); err != nil {
			return err
		}
		s.cut(c.generation, c.seq, c.chain)
		s.o.raise(c.inc)
	case kindDrop:
		inc, err := decodeDrop(body)
		if err != nil {
			return err
		}
		s.drop(inc)
	case kindMarks:
		marks, err := decodeMarks(body)
		if err != nil {
			return err
		}
		for i := range marks {
			if err := s.named(marks[i].uid); err != nil {
				return err
			}
			s.restoreMark(&marks[i])
		}
	case kindBound:
		b, err := decodeBound(body)
		if err != nil {
			return err
		}
		if ok, err := s.belongs(&b.head); !ok {
			return err
		}
		s.bind(b.first, b.last)
	case kindRenumber:
		r, err := decodeRenumber(body)
		if err != nil {
			return err
		}
		if err := s.named(r.uid); err != nil {
			return err
		}
		s.renumber(r.from, r.delta)
	case kindForget:
		uid, err := decodeForget(body)
		if err != nil {
			return err
		}
		if err := s.named(uid); err != nil {
			return err
		}
		s.queue, s.forgotten = queue{uid: uid}, true
	case kindSettled:
		uid, seq, err := decodeSettled(body)
		if err != nil {
			return err
		}
		if err := s.named(uid); err != nil {
			return err
		}
		s.settle(seq)
	}
	return nil
}

// named takes the stream's uid from its first record; every other one has the same.
func (s *Stream) named(uid string) error {
	if s.uid == "" {
		s.uid = uid
	}
	if s.uid != uid {
		return corrupt(fmt.Sprintf("record of stream %s in the log of %s", uid, s.uid))
	}
	s.forgotten = false
	return nil
}

// belongs tells whether a record counts; it does not when it is of a generation that has ended.
func (s *Stream) belongs(h *head) (bool, error) {
	if err := s.named(h.uid); err != nil {
		return false, err
	}
	if s.generation == 0 {
		s.generation = h.generation
	}
	s.o.raise(h.inc)
	return h.generation >= s.generation, nil
}

func (o *Outbox) raise(inc Incarnation) {
	if v := uint64(inc.Major)<<32 | uint64(inc.Minor); v > o.inc.Load() {
		o.inc.Store(v)
	}
}
