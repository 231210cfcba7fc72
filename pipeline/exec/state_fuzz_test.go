package exec

import (
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// FuzzSourceState: a source's entry of any bytes is refused or comes out of the next save as it went in, but for flags other than 0 and 1.
func FuzzSourceState(f *testing.F) {
	f.Add(make([]byte, sourceStateBytes))
	f.Add(make([]byte, sourceStateBytes1))
	f.Add(make([]byte, sourceStateBytesOld))
	f.Fuzz(func(t *testing.T, val []byte) {
		load := func(b []byte) (*source, bool) {
			s := newSource(testSource("s"))
			s.table = state.New(s.spec())
			if err := s.table.Load(nil, nil, b); err != nil {
				t.Fatal(err)
			}
			return s, s.restored() == nil
		}
		s, ok := load(val)
		if ok != (len(val) == sourceStateBytes || len(val) == sourceStateBytes1 || len(val) == sourceStateBytesOld) {
			t.Fatalf("%d bytes are taken: %v", len(val), ok)
		}
		if !ok {
			return
		}
		if err := s.save(); err != nil {
			t.Fatal(err)
		}
		saved, _ := s.table.Get(nil)
		again, ok := load(append([]byte(nil), saved...))
		if !ok || again.clock != s.clock || again.counts != s.counts {
			t.Fatalf("%x: %+v %+v, saved and restored %+v %+v", val, s.clock, s.counts, again.clock, again.counts)
		}
	})
}

// FuzzLedgerState: the same for the ledger of a step with several inputs.
func FuzzLedgerState(f *testing.F) {
	f.Add(make([]byte, ledgerBytes))
	f.Add([]byte{1, 2, 3})
	f.Fuzz(func(t *testing.T, val []byte) {
		load := func(b []byte) (*step, *merger, error) {
			s, m := &step{uid: "s", out: pipeline.NewOut("s", 1)}, &merger{}
			s.counters = state.New(state.Spec{Name: ledgerTable, Kind: state.Value, Type: "exec.ledger", Version: 1})
			if err := s.counters.Load(nil, nil, b); err != nil {
				t.Fatal(err)
			}
			return s, m, s.loadLedger(m)
		}
		s, m, err := load(val)
		if (err == nil) != (len(val) == ledgerBytes) {
			t.Fatalf("%d bytes: %v", len(val), err)
		}
		if err != nil {
			return
		}
		b := ledgerOf(s.out.Counters, m, true, s.ticked)
		again, n, err := load(b[:])
		if err != nil || again.out.Counters != s.out.Counters || n.last != m.last || n.idle != m.idle || again.ticked != s.ticked {
			t.Fatalf("%x comes back as %x: %v", val, b, err)
		}
	})
}
