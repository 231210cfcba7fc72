package exec

import (
	"encoding/binary"
	"fmt"
	"runtime/debug"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// ledgerBytes: five counters, the merge's watermark, the elapsed time of the last tick + 1 while timers wait (else 0), the
// merge's idle flag. See FORMAT.md.
const ledgerBytes = 5*8 + 8 + 8 + 1

// ledgerTable holds what the engine itself keeps of a step: its counters and, with several inputs, the merged watermark,
// which never goes back and therefore cannot be told from the inputs alone.
const ledgerTable = "$ledger"

// open declares the step's tables, the engine's own first.
func (s *step) open() error {
	s.counters = state.New(state.Spec{Name: ledgerTable, Kind: state.Value, Type: "exec.ledger", Version: 1})
	s.tables = append(s.tables, s.counters)
	if err := s.op.Open(s); err != nil {
		return fmt.Errorf("step %s: open: %w", s.uid, err)
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
	b := s.ledger()
	s.counters.Lock()
	defer s.counters.Unlock()
	if old, ok := s.counters.Get(nil); ok && string(old) == string(b[:]) {
		return nil
	}
	return s.counters.Put(nil, b[:])
}

func (s *step) ledger() (b [ledgerBytes]byte) {
	c := s.out.Counters
	for i, v := range []uint64{c.In, c.Emitted, c.Late, c.Dropped, c.Dead} {
		binary.LittleEndian.PutUint64(b[8*i:], v)
	}
	if s.merge != nil {
		binary.LittleEndian.PutUint64(b[40:], uint64(s.merge.last))
		if s.merge.idle {
			b[56] = 1
		}
	}
	if due, _ := s.op.Timers(); due != pipeline.NoDeadline {
		binary.LittleEndian.PutUint64(b[48:], uint64(s.ticked)+1)
	}
	return b
}

// restore fills the tables from a checkpoint and lets the operator rebuild its indexes. A panic over what it finds there is an error:
// it fails this pipeline, not the process.
func (s *step) restore(from pipeline.StateSource) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("step %s: panic over restored state: %v\n%s", s.uid, r, debug.Stack())
		}
	}()
	if from != nil {
		for _, t := range s.tables {
			if err := loadTable(from, s.uid, t); err != nil {
				return err
			}
		}
		if err := s.loadLedger(); err != nil {
			return err
		}
	}
	if err := s.op.Restored(); err != nil {
		return fmt.Errorf("step %s: rebuild from state: %w", s.uid, err)
	}
	return nil
}

func (s *step) loadLedger() error {
	b, ok := s.counters.Get(nil)
	if !ok {
		return nil
	}
	if len(b) != ledgerBytes {
		return fmt.Errorf("%w: step %s has a ledger of %d bytes, want %d", ErrState, s.uid, len(b), ledgerBytes)
	}
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[8*i:]) }
	s.out.Counters = pipeline.Counters{In: at(0), Emitted: at(1), Late: at(2), Dropped: at(3), Dead: at(4)}
	if s.merge != nil {
		s.merge.last, s.merge.idle, s.merge.announce = int64(at(5)), b[56] == 1, true
	}
	s.ticked = int64(at(6)) - 1
	return nil
}

func loadTable(from pipeline.StateSource, uid string, t *state.Table) error {
	want := t.Spec()
	spec, found, err := from.Entries(uid, want.Name, t.Load)
	if err != nil {
		return fmt.Errorf("restore step %s, table %s: %w", uid, want.Name, err)
	}
	// A table with TTL carries the time of the last write in each value, one without does not.
	if found && (spec.Kind != want.Kind || spec.Type != want.Type || spec.Version != want.Version || (spec.TTL > 0) != (want.TTL > 0)) {
		return fmt.Errorf("%w: step %s, table %s holds %s version %d, this plan needs %s version %d",
			ErrState, uid, want.Name, spec.Type, spec.Version, want.Type, want.Version)
	}
	return nil
}
