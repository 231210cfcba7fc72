package ops

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/store/pebblekv"
)

// TestFarDeadlinesAreTheSame: timers beside a large table are those in memory, in the same order.
func TestFarDeadlinesAreTheSame(t *testing.T) {
	db, err := pebblekv.OpenMem(1 << 20)
	if errors.Is(err, pebblekv.ErrNotBuilt) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}()
	pool := state.NewPool(db, 1)
	rapid.Check(t, func(t *rapid.T) {
		near, far := newDeadlines(), newDeadlines()
		near.beside(state.New(state.Spec{Name: "t", Kind: state.Value}))
		far.beside(pool.New(state.Spec{Name: "t", Kind: state.Value}))
		if near.far != nil || far.far == nil {
			t.Fatal("timers are not beside their table")
		}
		waits := map[string]bool{}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			key := []byte(fmt.Sprint("k", rapid.IntRange(0, 9).Draw(t, "key")))
			switch op := rapid.IntRange(0, 3).Draw(t, "op"); {
			case op < 2 && !waits[string(key)]:
				at := int64(rapid.IntRange(-3, 5).Draw(t, "at"))
				near.set(key, at)
				far.set(key, at)
				waits[string(key)] = true
			case op == 2:
				near.cancel(key)
				far.cancel(key)
				delete(waits, string(key))
			case op == 3 && len(waits) > 0:
				k1, at1 := near.take()
				k2, at2 := far.take()
				if k1 != k2 || at1 != at2 {
					t.Fatalf("the earliest is %q at %d, beside a large table %q at %d", k1, at1, k2, at2)
				}
				delete(waits, k1)
			}
			if a, b := near.earliest(), far.earliest(); a != b {
				t.Fatalf("the earliest deadline is %d, beside a large table %d", a, b)
			}
		}
	})
}
