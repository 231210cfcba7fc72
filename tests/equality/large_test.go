package equality

import (
	"errors"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/store/pebblekv"
)

// largePool makes the tables of lives with the backend pebble: one store for all tests, since each table has keys of its own. Next to nothing is
// kept in memory, so that entries come and go. nil in a build without Pebble.
var largePool = sync.OnceValues(func() (*state.Pool, error) {
	db, err := pebblekv.OpenMem(1 << 20)
	if errors.Is(err, pebblekv.ErrNotBuilt) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return state.NewPool(db, 600), nil
})

// largeStore is a store of a test's own.
func largeStore(t *testing.T) *pebblekv.DB {
	db, err := pebblekv.OpenMem(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // a life that fails leaves walks open
	return db
}

// largeTables gives how a life makes its tables; nil: in memory.
func largeTables(t fatal, large bool) func(string, state.Spec) *state.Table {
	pool, err := largePool()
	if err != nil {
		t.Fatalf("open pebble: %v", err)
	}
	if pool == nil || !large {
		return nil
	}
	return func(_ string, spec state.Spec) *state.Table { return pool.New(spec) }
}

// TestBackendsAreEqual: every life with the other backend than the one before, checkpoints of one restored into the other; the right answer is
// the memory backend's.
func TestBackendsAreEqual(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		for i := range d.lives {
			d.lives[i].large = (len(d.lives)-i)%2 == 1 // the last one always: it goes to the end
		}
		if wrong := live(t, d.graph(t), d.entries, d.all, d.counts, d.lives, &memoryKeeper{}); wrong != "" {
			t.Fatalf("%s\n%s", wrong, d.text)
		}
	})
}

// TestLargeFaultsAreFound: with large tables too, a state that is not restored and a forgotten abort must show.
func TestLargeFaultsAreFound(t *testing.T) {
	for name, keep := range map[string]func() keeper{
		"state not restored":         func() keeper { return &memoryKeeper{hide: func(uid string) bool { return uid[0] != '$' }} },
		"changes of an abort forgot": func() keeper { return &memoryKeeper{forget: true} },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range 400 {
				d := rapid.Custom(draw).Example(seed)
				for i := range d.lives {
					d.lives[i].large = true
				}
				if wrong := live(t, d.graph(t), d.entries, d.all, d.counts, d.lives, keep()); wrong != "" {
					t.Logf("found with example %d: %s", seed, wrong)
					return
				}
			}
			t.Fatal("not found")
		})
	}
}
