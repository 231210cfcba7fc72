package equality

import (
	"errors"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/store/pebblekv"
)

// largePool makes the tables of lives with the backend pebble: one store for all tests, since each table has keys of its own. Next to nothing is
// kept in memory, so that entries and timers come and go. nil in a build without Pebble.
var largePool = sync.OnceValues(func() (*state.Pool, error) { return openPool(func(b state.Backing) state.Backing { return b }) })

func openPool(wrap func(state.Backing) state.Backing) (*state.Pool, error) {
	db, err := pebblekv.OpenMem(1 << 20)
	if errors.Is(err, pebblekv.ErrNotBuilt) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return state.NewPool(wrap(db), 600), nil
}

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

// forgetful is a store that loses what is set in indexes: timers, keys of panes.
type forgetful struct{ state.Backing }

func (f forgetful) Batch() state.Batch { return forgetfulBatch{f.Backing.Batch()} }

type forgetfulBatch struct{ state.Batch }

// indexSpace is where a key of the store has the letter of its space.
const indexSpace = 4

func (b forgetfulBatch) Set(key, val []byte) error {
	if key[indexSpace] == 'i' {
		return nil
	}
	return b.Batch.Set(key, val)
}

// windowKindsThatWait have timers, or keys that a firing must find.
var windowKindsThatWait = []string{"hopping", "session", "top", "processing"}

// TestLostTimersAreFound: of each kind of window, a timer that is lost when it leaves the memory must show in some pipeline. So they do leave it.
func TestLostTimersAreFound(t *testing.T) {
	pool, err := openPool(func(b state.Backing) state.Backing { return forgetful{b} })
	if err != nil {
		t.Fatal(err)
	}
	if pool == nil {
		t.Skip("built without Pebble")
	}
	losing := func(_ string, spec state.Spec) *state.Table { return pool.New(spec) }
	for _, kind := range windowKindsThatWait {
		t.Run(kind, func(t *testing.T) {
			for seed := range 200 {
				d := rapid.Custom(func(t *rapid.T) *drawn { return drawWindow(t, kind) }).Example(seed)
				for i := range d.lives {
					d.lives[i].large, d.lives[i].tables = true, losing
				}
				if wrong := live(t, d.graph(t), d.entries, d.all, d.counts, d.lives, &memoryKeeper{}); wrong != "" {
					t.Logf("found with example %d: %s", seed, wrong)
					return
				}
			}
			t.Error("not found")
		})
	}
}

// TestWindowsSpill: pipelines of one window, in large tables with next to no memory; and what checkpoints hold at a position is the same with
// either backend.
func TestWindowsSpill(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawWindow(t, rapid.SampledFrom(windowKinds).Draw(t, "window"))
		at := elapsedAt(d.entries)
		images := [2]map[pipeline.Position]string{{}, {}}
		for n, large := range []bool{false, true} {
			for i := range d.lives {
				d.lives[i].large = large
			}
			if wrong := live(t, d.graph(t), d.entries, d.all, d.counts, d.lives, &memoryKeeper{images: images[n], elapsed: at}); wrong != "" {
				t.Fatalf("large %v: %s\n%s", large, wrong, d.text)
			}
		}
		for pos, want := range images[0] {
			if got, ok := images[1][pos]; ok && got != want {
				t.Fatalf("the checkpoint at %d holds\n%s\nin large tables, want\n%s\n%s", pos, got, want, d.text)
			}
		}
	})
}

// TestForeignImageIsFound: a table that is not in the checkpoints of one backend must show there.
func TestForeignImageIsFound(t *testing.T) {
	step := func(uid string) bool { return uid[0] != '$' }
	for seed := range 50 {
		d := rapid.Custom(func(t *rapid.T) *drawn { return drawWindow(t, "session") }).Example(seed)
		d.lives = d.lives[len(d.lives)-1:]
		d.lives[0].back = 0
		images := [2]map[pipeline.Position]string{{}, {}}
		for n, hide := range []func(string) bool{nil, step} {
			_ = live(t, d.graph(t), d.entries, d.all, d.counts, d.lives, &memoryKeeper{images: images[n], elapsed: elapsedAt(d.entries), hide: hide})
		}
		for pos, want := range images[0] {
			if got, ok := images[1][pos]; ok && got != want {
				return
			}
		}
	}
	t.Error("not found")
}

// elapsedAt gives the elapsed time at a position.
func elapsedAt(entries []pipeline.Entry) func(pipeline.Position) int64 {
	return func(pos pipeline.Position) int64 {
		if pos == 0 {
			return -1
		}
		return entries[pos-1].Stamp.Elapsed
	}
}
