package exec

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/state"
)

// sourceStateBytes is the size of the entry of a source's clock and counts: see FORMAT.md. Version 1 has less.
const (
	sourceStateBytes    = 1 + 1 + 3*8 + 7*8
	sourceStateBytes1   = sourceStateBytes - 8  // without the count of split records
	sourceStateBytesOld = sourceStateBytes1 - 8 // and without the stamp at which the clock moved
)

const sourceTable = "source"

func (s *source) spec() state.Spec {
	return state.Spec{Name: sourceTable, Kind: state.Value, Type: "exec.source", Version: 2}
}

// keep makes the table: with a clock per key where those of steps are made, else in memory, since it has few entries.
func (s *source) keep(tables func(uid string, spec state.Spec) *state.Table) {
	if s.keys == nil || tables == nil {
		s.table = state.New(s.spec())
		return
	}
	s.table = tables(sourceUID(s.plan.Name), s.spec())
	s.keys.beside(s.table)
}

// save puts the state into the table when it changed: an idle pipeline has nothing dirty.
func (s *source) save() error {
	var b [sourceStateBytes]byte
	if s.clock.started {
		b[0] = 1
	}
	if s.clock.idle {
		b[1] = 1
	}
	for i, v := range []uint64{uint64(s.clock.timeMax), uint64(s.clock.lastElapsed), uint64(s.clock.watermark),
		s.counts.Received, s.counts.Tombstones, s.counts.Dead, s.counts.Rows, s.counts.Stubs, uint64(s.clock.moved), s.counts.Split} {
		binary.LittleEndian.PutUint64(b[2+8*i:], v)
	}
	s.table.Lock()
	defer s.table.Unlock()
	if string(b[:]) != string(s.saved) {
		s.saved = append(s.saved[:0], b[:]...)
		if err := s.table.Put(nil, b[:]); err != nil {
			return err
		}
	}
	put := func(key, val []byte) error {
		if val == nil {
			s.table.Delete(key)
			return nil
		}
		return s.table.Put(key, val)
	}
	if s.keys != nil {
		if err := s.keys.save(put); err != nil {
			return err
		}
	}
	return s.saveDecoders(put)
}

// decoderEntry begins the key of an entry that belongs to a decoder; its number in the plan follows.
const decoderEntry = 'd'

// saveDecoders puts what decoders that go by the order of messages keep.
func (s *source) saveDecoders(put func(key, val []byte) error) error {
	for i, d := range s.lanes[0].decoders {
		q, ok := d.decoder.(codec.Sequential)
		if !ok {
			continue
		}
		prefix := []byte{decoderEntry, byte(i)}
		if err := q.Save(func(key, val []byte) error { return put(append(prefix[:2:2], key...), val) }); err != nil {
			return err
		}
	}
	return nil
}

// loadEntry gives an entry other than the source's own to whom it belongs.
func (s *source) loadEntry(key, val []byte) error {
	if len(key) >= 2 && key[0] == decoderEntry && int(key[1]) < len(s.lanes[0].decoders) {
		if q, ok := s.lanes[0].decoders[key[1]].decoder.(codec.Sequential); ok {
			return q.Load(key[2:], val)
		}
	}
	if len(key) > 1 && key[0] == keyClockEntry && s.keys != nil && s.keys.load(key[1:], val) {
		return nil
	}
	return fmt.Errorf("%w: source %s: no part of it has the key %q", ErrState, s.plan.Name, key)
}

// loadEntries gives all of them.
func (s *source) loadEntries() (err error) {
	s.table.Range(func(key, _, val []byte) bool {
		if len(key) > 0 {
			err = s.loadEntry(key, val)
		}
		return err == nil
	})
	if s.keys != nil {
		s.keys.restored()
	}
	return err
}

// older puts entries of version 1 into the table as changes. restored reads what is less in the source's own.
func (s *source) older(version uint16) func(key, sub, val []byte) error {
	if version != 1 {
		return nil
	}
	return s.table.LoadChanged
}

func (s *source) restored() error {
	b, ok := s.table.Get(nil)
	if !ok {
		return nil
	}
	if len(b) == sourceStateBytesOld {
		b = append(slices.Clone(b), b[2+8:2+2*8]...)
	}
	if len(b) == sourceStateBytes1 {
		b = append(slices.Clone(b), make([]byte, 8)...)
	}
	if len(b) != sourceStateBytes {
		return fmt.Errorf("%w: source %s has %d bytes of state, want %d", ErrState, s.plan.Name, len(b), sourceStateBytes)
	}
	s.saved = append(s.saved[:0], b...)
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[2+8*i:]) }
	s.clock = sourceClock{started: b[0] == 1, idle: b[1] == 1, timeMax: int64(at(0)), lastElapsed: int64(at(1)), watermark: int64(at(2)), moved: int64(at(8))}
	s.counts = SourceCounters{Received: at(3), Tombstones: at(4), Dead: at(5), Rows: at(6), Stubs: at(7), Split: at(9)}
	s.resumed = true
	if err := s.loadEntries(); err != nil {
		return err
	}
	s.undrain()
	return nil
}

// undrain takes back the end of event time: a pipeline that goes on behind a drain has a clock that its records made, else all of them would be late.
func (s *source) undrain() {
	if s.clock.watermark != pipeline.MaxWatermark {
		return
	}
	s.clock.watermark = pipeline.MinWatermark
	if s.clock.started && s.plan.Time != nil {
		front := s.clock.timeMax
		if s.keys != nil && s.keys.count() > 0 {
			front = s.keys.front()
		}
		s.clock.watermark = front - s.plan.Time.OutOfOrdernessMs
	}
}
