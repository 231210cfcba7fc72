package exec

import (
	"encoding/binary"
	"fmt"
	"runtime/debug"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// ledgerBytes: five counters, the merge's watermark, the elapsed time of the last tick + 1 while timers wait or a table has a
// TTL (else 0), the
// merge's idle flag. See FORMAT.md.
const ledgerBytes = 5*8 + 8 + 8 + 1

// ledgerTable holds what the engine itself keeps of a step: its counters and, with several inputs, the merged watermark,
// which never goes back and therefore cannot be told from the inputs alone.
const ledgerTable = "$ledger"

// open declares the step's tables, the engine's own first.
func (s *step) open() error {
	s.counters = state.New(state.Spec{Name: ledgerTable, Kind: state.Value, Type: "exec.ledger", Version: 1})
	s.tables = append(s.tables, s.counters)
	return s.openOperator()
}

func (s *step) openOperator() error {
	if err := s.op.Open(s); err != nil {
		return fmt.Errorf("step %s: open: %w", s.uid, err)
	}
	for _, t := range s.tables {
		if t.Spec().TTL > 0 {
			s.ages = true
			s.aging, _ = s.op.(pipeline.Aging)
		}
	}
	return nil
}

// Table gives the operator a table of its own (pipeline.Tables).
func (s *step) Table(spec state.Spec) (*state.Table, error) {
	for _, t := range s.tables {
		if t.Spec().Name == spec.Name {
			return nil, fmt.Errorf("table %q is declared twice", spec.Name)
		}
	}
	t := s.makeTable(spec)
	s.tables = append(s.tables, t)
	return t, nil
}

func (s *step) makeTable(spec state.Spec) *state.Table {
	if s.newTable == nil {
		return state.New(spec)
	}
	return s.newTable(s.uid, spec)
}

// save writes the ledger entry when it changed since the last barrier.
func (s *step) save() error {
	due, _ := s.op.Timers()
	return s.saveLedger(ledgerOf(s.out.Counters, s.merge, s.timed(due), s.ticked))
}

func (s *step) refused(into []pipeline.DeadRow) []pipeline.DeadRow {
	return append(into, s.out.Dead...)
}

func (s *step) timers() (elapsed, eventTime int64) {
	if s.timeless {
		return pipeline.NoDeadline, pipeline.NoDeadline
	}
	return s.op.Timers()
}

func (s *step) ledgers(into []StepLedger) []StepLedger {
	return append(into, StepLedger{UID: s.uid, Counters: s.out.Counters})
}

func (s *step) collect(into []*pipeline.Out) []*pipeline.Out { return append(into, s.out) }

func (s *step) shrink() {
	s.out.Shrink()
	for i := range s.outputs {
		s.outputs[i] = edge{}
	}
}

func (s *step) saveLedger(b [ledgerBytes]byte) error {
	s.counters.Lock()
	defer s.counters.Unlock()
	if old, ok := s.counters.Get(nil); ok && string(old) == string(b[:]) {
		return nil
	}
	if err := s.counters.Put(nil, b[:]); err != nil {
		return fmt.Errorf("step %s: save: %w", s.uid, err)
	}
	return nil
}

// timed tells whether the stamp that the step has come to must be kept: a timer waits, entries age, or the operator follows the clock: a stamp that
// comes again after a restore must not be told again. Else an idle step stays clean.
func (s *step) timed(due int64) bool {
	_, clocked := s.op.(pipeline.Clocked)
	return clocked || s.ages || due != pipeline.NoDeadline
}

// ledgerOf makes the entry; merge is nil where there is one input; timed tells whether to keep the stamp.
func ledgerOf(c pipeline.Counters, merge *merger, timed bool, ticked int64) (b [ledgerBytes]byte) {
	for i, v := range []uint64{c.In, c.Emitted, c.Late, c.Dropped, c.Dead} {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
	if merge != nil {
		binary.LittleEndian.PutUint64(b[40:], uint64(merge.last))
		if merge.idle {
			b[56] = 1
		}
	}
	if timed {
		binary.LittleEndian.PutUint64(b[48:], uint64(ticked)+1)
	}
	return b
}

// freeze takes what changed in each table since the last barrier: a swap of its dirty list.
func (s *step) freeze(parts []pipeline.StatePart) []pipeline.StatePart {
	for _, table := range s.tables {
		table.Lock()
		parts = append(parts, pipeline.StatePart{UID: s.uid, Spec: table.Spec(), Frozen: table.Freeze()})
		table.Unlock()
	}
	return parts
}

// loads are the tables that a checkpoint fills.
func (s *step) loads(into []tableLoad) []tableLoad {
	for _, t := range s.tables {
		into = append(into, tableLoad{uid: s.uid, want: t.Spec(), load: t.Load, older: s.older(t.Spec().Name)})
	}
	return into
}

// older tells how a table of the operator takes entries of lower versions; nil: not at all.
func (s *step) older(table string) func(version uint16) func(key, sub, val []byte) error {
	e, ok := s.op.(pipeline.Evolving)
	if !ok || table == ledgerTable {
		return nil
	}
	return func(version uint16) func(key, sub, val []byte) error { return e.Older(table, version) }
}

// restore lets the operator rebuild its indexes from the tables, which were filled if there is a checkpoint. A panic over what it finds there is an error:
// it fails this pipeline, not the process.
func (s *step) restore(from pipeline.StateSource, reached int64) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("step %s: panic over restored state: %v\n%s", s.uid, r, debug.Stack())
		}
	}()
	if from != nil {
		if err := s.loadLedger(s.merge); err != nil {
			return err
		}
		s.tell(reached)
	}
	if err := s.op.Restored(); err != nil {
		return fmt.Errorf("step %s: rebuild from state: %w", s.uid, err)
	}
	return nil
}

func (s *step) loadLedger(merge *merger) error {
	b, ok := s.counters.Get(nil)
	if !ok {
		return nil
	}
	if len(b) != ledgerBytes {
		return fmt.Errorf("%w: step %s has a ledger of %d bytes, want %d", ErrState, s.uid, len(b), ledgerBytes)
	}
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	s.out.Counters = pipeline.Counters{In: at(0), Emitted: at(1), Late: at(2), Dropped: at(3), Dead: at(4)}
	if merge != nil {
		merge.last, merge.idle, merge.announce = int64(at(5)), b[56] == 1, true
		if merge.last == pipeline.MaxWatermark { // it was drained: what follows is judged by the clocks of the sources (source.undrain)
			merge.last = pipeline.MinWatermark
		}
	}
	s.ticked = int64(at(6)) - 1
	return nil
}

// tell has the tables judge their TTL by the time that the checkpoint was made at, as far as it is known: the watermark is repeated before the
// first tick comes, and must not fire what had expired.
func (s *step) tell(reached int64) {
	for _, t := range s.tables {
		t.SetNow(max(reached, s.ticked))
	}
}
