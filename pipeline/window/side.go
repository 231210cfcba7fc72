package window

import (
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// side is where aggregates keep what does not fit an entry of fixed size, under the key of the entry. A table that no
// aggregate needs is nil.
type side struct {
	texts    *state.Table // (key, aggregate) -> text that min, max, first or last picked
	sketches *state.Table // (key, aggregate) -> quantile sketch, or registers of distinct
	seen     *state.Table // (key, aggregate and value) -> nothing: what distinct has seen
	lists    *state.Table // key -> elements of collect
}

// open declares the tables that the aggregates need. They have no TTL of their own: what they hold may stay as it is while its
// entry goes on being written. See begin.
func (s *accumulators) open(tables pipeline.Tables) error { return s.openSide(&s.state, tables.Table) }

// scratch makes a side that no checkpoint sees, for partial results that are rebuilt from panes.
func (s *accumulators) scratch() *side {
	n := &side{}
	_ = s.openSide(n, func(spec state.Spec) (*state.Table, error) { return state.NewScratch(spec), nil }) // cannot fail
	return n
}

func (s *accumulators) openSide(n *side, table func(state.Spec) (*state.Table, error)) (err error) {
	need := func(t **state.Table, name string, kind state.Kind, wanted bool) {
		if wanted && err == nil {
			*t, err = table(state.Spec{Name: name, Kind: kind, Type: "window." + name, Version: 1})
		}
	}
	need(&n.texts, "text", state.Map, true)
	need(&n.sketches, "sketch", state.Map, s.has(func(k AggKind) bool { return k == Distinct || k.family() == familyQuantiles }))
	need(&n.seen, "seen", state.Map, s.has(func(k AggKind) bool { return k == Distinct }))
	need(&n.lists, "list", state.List, s.has(func(k AggKind) bool { return k == Collect }))
	return err
}

func (s *accumulators) has(f func(AggKind) bool) bool {
	for _, a := range s.aggs {
		if f(a.kind) {
			return true
		}
	}
	return false
}

// begin must be called with each entry that is new (zeroed), before anything is added: an entry that went by its TTL leaves its side
// behind.
func (s *accumulators) begin(c cell) { s.forget(c) }

// forget drops what the side holds for a cell. The entry is the caller's.
func (s *accumulators) forget(c cell) {
	for i, a := range s.aggs { // by subkey: to look for those of a key costs a large table a walk
		switch {
		case a.kind >= Min && a.kind <= Last && c.side.texts.Len() > 0:
			c.side.texts.DeleteSub(c.key, s.subkey(i))
		case (a.kind == Distinct || a.kind.family() == familyQuantiles) && c.side.sketches.Len() > 0:
			c.side.sketches.DeleteSub(c.key, s.subkey(i))
		}
	}
	for _, t := range []*state.Table{c.side.seen, c.side.lists} {
		if t != nil && t.Len() > 0 {
			t.Delete(c.key)
		}
	}
}

// restored checks what a checkpoint gave back, so that a sketch which cannot be read fails the restore and not a firing.
func (s *accumulators) restored() (err error) {
	if s.state.sketches != nil {
		s.state.sketches.Range(func(_, sub, val []byte) bool {
			if len(sub) != 1 || int(sub[0]) >= len(s.aggs) {
				err = fmt.Errorf("%w: sketch of aggregate %x", ErrState, sub)
			} else if s.aggs[sub[0]].kind == Distinct {
				err = checkRegisters(val)
			} else {
				_, err = readQuantiles(val)
			}
			return err == nil
		})
	}
	if s.state.lists != nil && err == nil {
		s.state.lists.Range(func(_, _, val []byte) bool {
			if _, _, err = readCollected(val); err == nil && (int(val[0]) >= len(s.aggs) || s.aggs[val[0]].kind != Collect) {
				err = fmt.Errorf("%w: collected element of aggregate %d", ErrState, val[0])
			}
			return err == nil
		})
	}
	return err
}
