package ops

import (
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// The transitions that an absence reports.
const (
	TransitionMissing = "missing"
	TransitionBack    = "back"
)

// AbsenceConfig sets up an absence.
type AbsenceConfig struct {
	Key       []int // slots
	After     int64 // elapsed ns, or ms of event time
	EventTime bool  // silence is judged by the watermark, else by the journal's clock
	Timed     bool  // rows have event time
	MaxKeys   int   // keys known; 0: no limit
	// The rows that come out: Width slots, the key columns in KeyOut (-1 leaves one out), then transition and last seen.
	Width                    int
	KeyOut                   []int
	TransitionSlot, SeenSlot int
}

// Validate names the field that is wrong.
func (c AbsenceConfig) Validate() error {
	switch {
	case c.After <= 0:
		return fmt.Errorf("%w: absence: after is %d, want more than 0", ErrConfig, c.After)
	case c.MaxKeys < 0:
		return fmt.Errorf("%w: absence: max_keys is %d, want 0 or more", ErrConfig, c.MaxKeys)
	case len(c.KeyOut) != len(c.Key):
		return fmt.Errorf("%w: absence: %d key columns for %d keys", ErrConfig, len(c.KeyOut), len(c.Key))
	}
	return nil
}

// Absence tells when a key that was seen falls silent and when it is back. Each row puts its deadline off: After behind the row. At
// the deadline the key is missing; its next row brings it back. A key is known from its first row on, and never forgotten.
//
// With the journal's clock a row counts when it arrives. With event time a deadline fires when the watermark reaches it, the
// newest row of a key counts, and a row whose own deadline the watermark has passed is late and changes nothing.
type Absence struct {
	c         AbsenceConfig
	keys      *state.Table
	waits     deadlines
	watermark int64
	key       []byte
}

// NewAbsence makes an absence from a valid config.
func NewAbsence(c AbsenceConfig) *Absence {
	return &Absence{c: c, waits: newDeadlines(), watermark: pipeline.MinWatermark}
}

// absenceState is an entry of the table "keys".
type absenceState struct {
	missing  bool
	deadline int64 // elapsed ns, or event time in ms
	seen     int64 // ms: event time of the newest row; wall time of the last one where rows have none; NoTime: not known
}

// absenceBytes: phase, deadline, seen (FORMAT.md).
const absenceBytes = 1 + 8 + 8

const (
	absencePresent = 1
	absenceMissing = 2
)

func putAbsence(b []byte, s absenceState) {
	b[0] = absencePresent
	if s.missing {
		b[0] = absenceMissing
	}
	binary.LittleEndian.PutUint64(b[1:], uint64(s.deadline))
	binary.LittleEndian.PutUint64(b[9:], uint64(s.seen))
}

// parseAbsence is the inverse of putAbsence.
func parseAbsence(b []byte) (s absenceState, err error) {
	if len(b) != absenceBytes || b[0] != absencePresent && b[0] != absenceMissing {
		return s, fmt.Errorf("%w: absence entry of %d bytes", ErrState, len(b))
	}
	return absenceState{
		missing: b[0] == absenceMissing, deadline: int64(binary.LittleEndian.Uint64(b[1:])), seen: int64(binary.LittleEndian.Uint64(b[9:])),
	}, nil
}

// Open implements pipeline.Operator.
func (a *Absence) Open(tables pipeline.Tables) (err error) {
	kind := "ops.absence"
	if a.c.EventTime {
		kind = "ops.absence.event"
	}
	a.keys, err = tables.Table(state.Spec{Name: "keys", Kind: state.Value, Type: kind, Version: 1, MaxKeys: a.c.MaxKeys})
	if err != nil {
		return err
	}
	a.waits.beside(a.keys)
	return nil
}

// Restored rebuilds the waiting deadlines.
func (a *Absence) Restored() (err error) {
	a.keys.Range(func(key, _, val []byte) bool {
		var s absenceState
		if s, err = parseAbsence(val); err == nil && !s.missing {
			a.waits.set(key, s.deadline)
		}
		return err == nil
	})
	return err
}

// Process implements pipeline.Operator.
func (a *Absence) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	now := out.Elapsed()
	if a.c.EventTime {
		if now = r.Time; now == pipeline.NoTime {
			out.Refuse(reasonNoTime, "absence: the row has no event time", r)
			return
		}
	}
	deadline := later(now, a.c.After)
	if a.c.EventTime && deadline <= a.watermark {
		out.Counters.Late++
		return
	}
	a.key = appendKeySlots(a.key[:0], r.Slots, a.c.Key)
	b, created, err := a.keys.Upsert(a.key, absenceBytes)
	if err != nil {
		out.Refuse(reasonMaxKeys, err.Error(), r)
		return
	}
	before := absenceState{deadline: deadline, seen: pipeline.NoTime}
	if !created {
		if before, err = parseAbsence(b); err != nil {
			panic("BUG: " + err.Error())
		}
	}
	next := absenceState{deadline: deadline, seen: seenAt(r, out)}
	if !before.missing {
		next.deadline = max(deadline, before.deadline) // a row that a timer made may lie before one that arrived
	}
	if r.Time != pipeline.NoTime {
		next.seen = max(next.seen, before.seen)
	}
	putAbsence(b, next)
	a.waits.move(a.key, next.deadline)
	if before.missing {
		a.emit(TransitionBack, a.key, r.Time, before.seen, out)
	}
}

// later adds a span, up to the last instant that there is.
func later(at, span int64) int64 {
	if at > pipeline.NoDeadline-1-span {
		return pipeline.NoDeadline - 1
	}
	return at + span
}

// seenAt is the time of a row as people read it. A row that a timer made has no wall time: that of its record comes after it.
func seenAt(r *pipeline.Row, out *pipeline.Out) int64 {
	switch {
	case r.Time != pipeline.NoTime:
		return r.Time
	case r.Phase == pipeline.During:
		return out.Now.Wall
	}
	return pipeline.NoTime
}

// Elapsed tells of the keys that the journal's clock found missing.
func (a *Absence) Elapsed(now pipeline.Stamp, out *pipeline.Out) {
	if !a.c.EventTime {
		a.fire(now.Elapsed, out)
	}
}

// Watermark tells of the keys that event time found missing.
func (a *Absence) Watermark(w int64, out *pipeline.Out) {
	if a.c.EventTime {
		a.watermark = w
		a.fire(w, out)
	}
}

func (a *Absence) fire(upTo int64, out *pipeline.Out) {
	for a.waits.earliest() <= upTo && a.waits.earliest() != pipeline.NoDeadline {
		key, at := a.waits.take()
		a.key = append(a.key[:0], key...)
		b, created, err := a.keys.Upsert(a.key, absenceBytes)
		if err != nil || created {
			panic("BUG: a deadline waits for a key that is not known")
		}
		s, err := parseAbsence(b)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		s.missing = true
		putAbsence(b, s)
		out.SetTimer(at, 0, a.key)
		time := int64(pipeline.NoTime)
		switch {
		case a.c.EventTime:
			time = at
		case a.c.Timed:
			time = s.seen
		}
		a.emit(TransitionMissing, a.key, time, s.seen, out)
	}
}

// Timers implements pipeline.Operator.
func (a *Absence) Timers() (elapsed, eventTime int64) {
	if a.c.EventTime {
		return pipeline.NoDeadline, a.waits.earliest()
	}
	return a.waits.earliest(), pipeline.NoDeadline
}

func (a *Absence) emit(transition string, key []byte, time, seen int64, out *pipeline.Out) {
	slots := out.Slots(a.c.Width)
	for _, slot := range a.c.KeyOut {
		v, rest, err := out.KeyValue(key)
		if err != nil {
			panic("BUG: an absence has a key that was never written: " + err.Error())
		}
		key = rest
		if slot >= 0 {
			slots[slot] = v
		}
	}
	slots[a.c.TransitionSlot] = pipeline.StringValue(transition)
	if seen != pipeline.NoTime {
		slots[a.c.SeenSlot] = pipeline.IntValue(seen)
	}
	out.Emit(0, time, slots)
}
