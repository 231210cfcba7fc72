package join

import (
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// Missing says what becomes of a row whose key is not in the table.
type Missing uint8

// What a lookup does with such a row.
const (
	MissingNull Missing = iota // its columns from the table are null
	MissingDrop                // it is dropped and counted
	MissingDead                // it becomes a dead letter
)

var missingNames = [...]string{"null", "drop", "dead"}

// ParseMissing reads null, drop or dead.
func ParseMissing(name string) (Missing, error) {
	for i, n := range missingNames {
		if n == name {
			return Missing(i), nil
		}
	}
	return MissingNull, fmt.Errorf("%w: missing is %q, want null, drop or dead", ErrConfig, name)
}

// LookupConfig sets up a lookup.
type LookupConfig struct {
	Key     []int  // slots of the rows that come in
	Table   *Table // indexed by as many columns
	Take    []int  // columns of the table that rows get
	Missing Missing
	Slots   []int // of the rows that come out: where they go
	// Carry tells, per slot of the rows that come out, which slot of the row that came in it is; -1 for none.
	Carry []int
}

// Validate names the field that is wrong.
func (c LookupConfig) Validate() error {
	switch {
	case c.Table == nil || c.Table.index == nil:
		return fmt.Errorf("%w: lookup without a table", ErrConfig)
	case len(c.Key) == 0:
		return fmt.Errorf("%w: lookup: on is missing", ErrConfig)
	case len(c.Slots) != len(c.Take):
		return fmt.Errorf("%w: lookup: %d slots for %d columns", ErrConfig, len(c.Slots), len(c.Take))
	}
	return nil
}

// Lookup adds columns of a table to each row. The table is part of the plan and does not change while it runs.
type Lookup struct {
	pipeline.Stateless
	c   LookupConfig
	key []byte
}

// NewLookup makes a lookup from a valid config.
func NewLookup(c LookupConfig) *Lookup { return &Lookup{c: c} }

// Process implements pipeline.Operator.
func (l *Lookup) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	found := l.find(r.Slots)
	if found == nil {
		switch l.c.Missing {
		case MissingDrop:
			out.Counters.Dropped++
			return
		case MissingDead:
			out.Refuse(reasonLookup, "the table has no such key", r)
			return
		}
	}
	slots := out.Slots(len(l.c.Carry))
	for i, from := range l.c.Carry {
		if from >= 0 {
			slots[i] = r.Slots[from]
		}
	}
	if found != nil {
		for i, column := range l.c.Take {
			slots[l.c.Slots[i]] = found[column]
		}
	}
	out.Emit(0, r.Time, slots)
}

// find gives the row of the table, nil when there is none. Null is equal to nothing.
func (l *Lookup) find(slots []pipeline.Value) []pipeline.Value {
	l.key = l.key[:0]
	for _, slot := range l.c.Key {
		if slots[slot].IsNull() {
			return nil
		}
		l.key = l.c.Table.appendKey(l.key, slots[slot])
	}
	if i, ok := l.c.Table.index[string(l.key)]; ok {
		return l.c.Table.cells[i]
	}
	return nil
}
