package ops

import (
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// Keyed is the part of a config that all steps with a value per key share.
type Keyed struct {
	Key     []int // slots; null is a key like any other
	MaxKeys int   // 0: no limit
	TTL     int64 // elapsed ns since the last write, after which a key is forgotten; 0: never
}

func (k Keyed) validate(what string) error {
	if k.MaxKeys < 0 || k.TTL < 0 {
		return fmt.Errorf("%w: %s: max_keys is %d, ttl %d ns, want 0 or more", ErrConfig, what, k.MaxKeys, k.TTL)
	}
	return nil
}

// memory is the table of a keyed step with one value per key.
type memory struct {
	timerless
	k     Keyed
	table *state.Table
	key   []byte
}

func (m *memory) open(tables pipeline.Tables, name, kind string, version uint16) (err error) {
	m.table, err = tables.Table(state.Spec{Name: name, Kind: state.Value, Type: kind, Version: version, TTL: m.k.TTL, MaxKeys: m.k.MaxKeys})
	return err
}

// at turns to the key of a row and gives what is kept of it, valid until the next call on the table.
func (m *memory) at(r *pipeline.Row, out *pipeline.Out) (val []byte, ok bool) {
	if m.k.TTL > 0 { // a row made by a timer comes before the tick that tells the table
		m.table.SetNow(out.Elapsed())
	}
	m.key = appendKeySlots(m.key[:0], r.Slots, m.k.Key)
	return m.table.Get(m.key)
}

// room gives a writable value of size bytes for the key that at turned to; nil: there is one key too many, the row was refused.
func (m *memory) room(size int, r *pipeline.Row, out *pipeline.Out) []byte {
	b, _, err := m.table.Upsert(m.key, size)
	if err != nil {
		out.Refuse(reasonMaxKeys, err.Error(), r)
		return nil
	}
	return b
}

// put writes the value of the key that at turned to; false: the row was refused.
func (m *memory) put(val []byte, r *pipeline.Row, out *pipeline.Out) bool {
	if err := m.table.Put(m.key, val); err != nil {
		out.Refuse(reasonMaxKeys, err.Error(), r)
		return false
	}
	return true
}

// check refuses a table with an entry that parse does not take.
func (m *memory) check(parse func(val []byte) error) (err error) {
	m.table.Range(func(_, _, val []byte) bool {
		if err = parse(val); err != nil {
			err = fmt.Errorf("table %s: %w", m.table.Spec().Name, err)
		}
		return err == nil
	})
	return err
}
