package state_test

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/store/pebblekv"
)

// backing opens a store in memory, small enough that it flushes and compacts.
func backing(t testing.TB) *pebblekv.DB {
	db, err := pebblekv.OpenMem(1 << 20)
	if errors.Is(err, pebblekv.ErrNotBuilt) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// largeMaker makes large tables with next to no memory for hot entries: they come and go.
func largeMaker(t testing.TB) func(state.Spec) *state.Table {
	return state.NewPool(backing(t), 400).New
}

// TestLargeModel: a large table is the model at every step, as the slab is (TestModel).
func TestLargeModel(t *testing.T) {
	table := largeMaker(t)
	rapid.Check(t, propertyModel(false, table))
}

// TestLargeModelConcurrent has the encoder run beside the owner.
func TestLargeModelConcurrent(t *testing.T) {
	table := largeMaker(t)
	rapid.Check(t, propertyModel(true, table))
}

// TestLargeFaultsAreFound plants faults that the model must find.
func TestLargeFaultsAreFound(t *testing.T) {
	for name, plant := range map[string]func(*state.Table){
		"an abort gives nothing back":              (*state.Table).ForgetDirty,
		"the barrier leaves out what waits":        (*state.Table).PlantLateFlush,
		"a change in a new generation has no mark": (*state.Table).PlantOldMark,
	} {
		t.Run(name, func(t *testing.T) {
			pool := state.NewPool(backing(t), 1<<20)
			m := newModel(value(0, 0), func(s state.Spec) *state.Table { return pool.New(s) })
			plant(m.table)
			found := &recorder{}
			m.table.Lock()
			defer m.table.Unlock()
			for i := range 10 {
				for _, k := range [][2]string{{fmt.Sprint("key", i), ""}, {"same", ""}} {
					_ = m.table.Put([]byte(k[0]), fmt.Append(nil, i))
					m.m[k] = modelEntry{val: fmt.Sprint(i)}
				}
				m.freeze()
				if i == 4 {
					m.abort(0, m.table.Unlock, m.table.Lock)
					continue
				}
				m.commit(found, m.table.Unlock, m.table.Lock)
			}
			if found.n == 0 {
				t.Error("the model does not find it")
			}
		})
	}
}

// TestLargeMarksDoNotPileUp: a long row of failed checkpoints keeps one mark per changed entry.
func TestLargeMarksDoNotPileUp(t *testing.T) {
	table := largeMaker(t)(value(0, 0))
	table.Lock()
	defer table.Unlock()
	for i := range 200 {
		for k := range 20 {
			if err := table.Put(fmt.Appendf(nil, "key%d", k), fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		f := table.Freeze()
		table.Unlock()
		f.Abort()
		table.Lock()
		if n := table.Marks(); n > 20 {
			t.Fatalf("after %d aborts 20 entries have %d marks", i+1, n)
		}
	}
	f := table.Freeze()
	table.Unlock()
	if got := encode(t, f, true); len(got) != 20 {
		t.Errorf("%d entries encoded", len(got))
	}
	f.Commit()
	table.Lock()
	if n := table.Marks(); n != 0 {
		t.Errorf("%d marks are left", n)
	}
}

// TestLargeFailureIsNoAnswer: when the store fails, a call panics with the failure and does not tell that a key is absent.
func TestLargeFailureIsNoAnswer(t *testing.T) {
	if !state.LargeBuilt {
		t.Skip("built without large tables")
	}
	table := state.NewPool(broken{}, 0).New(value(0, 0))
	defer func() {
		err, ok := recover().(error)
		var failed *state.BackingError
		if !ok || !errors.As(err, &failed) || !errors.Is(err, errBroken) {
			t.Errorf("recovered %v", err)
		}
	}()
	_, found := table.Get([]byte("key"))
	t.Errorf("Get tells %v", found)
}

var errBroken = errors.New("broken")

type broken struct{ state.Backing }

func (broken) Get([]byte, []byte) ([]byte, bool, error) { return nil, false, errBroken }
func (broken) Batch() state.Batch                       { return nil }

// TestLargeExpiryIsBounded: a call looks at a bounded number of what has expired, and memory and store let go of it.
func TestLargeExpiryIsBounded(t *testing.T) {
	table := largeMaker(t)(value(1000, 0))
	for i := range 5000 {
		table.SetNow(int64(i))
		if err := table.Put(fmt.Appendf(nil, "key%d", i), make([]byte, 40)); err != nil {
			t.Fatal(err)
		}
	}
	if n := table.Records(); n > 1200 {
		t.Errorf("%d records are held for 1000", n)
	}
	if n := table.Len(); n != 1000 {
		t.Errorf("Len is %d", n)
	}
	if n := table.HotBytes(); n > 300<<10 {
		t.Errorf("%d bytes of hot entries", n)
	}
	check(t, table)
}
