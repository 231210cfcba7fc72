package window_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/pipeline/window"
)

// lookups is a store that counts what is read of it.
type lookups struct {
	state.Backing
	gets, steps *int
}

func (l lookups) Get(dst, key []byte) ([]byte, bool, error) {
	*l.gets++
	return l.Backing.Get(dst, key)
}

func (l lookups) Iter(lower, upper []byte) (state.Iter, error) {
	it, err := l.Backing.Iter(lower, upper)
	return stepsIter{it, l.steps}, err
}

// TestFiringReadsFewPanes: a window of 64 panes in a large table fires with a few look-ups per key, where nothing of it is in memory.
func TestFiringReadsFewPanes(t *testing.T) {
	gets, steps := 0, 0
	pool, err := openPool(func(b state.Backing) state.Backing { return lookups{b, &gets, &steps} })
	if err != nil {
		t.Fatal(err)
	}
	if pool == nil {
		t.Skip("built without Pebble")
	}
	const keys, panes, rounds = 12, 64, 32
	c := hopping(panes*time.Second, time.Second, 0)
	c.Aggs = slideAggs()
	s := newStreamIn(t, window.NewHopping(c), keys, 1, pool.New)
	s.warm(2 * panes * time.Second)
	gets, steps = 0, 0
	s.warm(rounds * time.Second)
	perKey := func(n int) float64 { return float64(n) / (keys * rounds) }
	t.Logf("%.1f look-ups and %.1f steps per key and window", perKey(gets), perKey(steps))
	if got := perKey(gets); got > 16 {
		t.Errorf("%.1f look-ups per key and window of %d panes, want 16 at most", got, panes)
	}
	if got := perKey(steps); got > 24 {
		t.Errorf("%.1f steps per key and window of %d panes, want 24 at most", got, panes)
	}
}

func TestHoppingInLargeTablesIsThatInMemory(t *testing.T) {
	pool, err := largePool()
	if err != nil {
		t.Fatal(err)
	}
	if pool == nil {
		t.Skip("built without Pebble")
	}
	rapid.Check(t, func(t *rapid.T) {
		c := optest.Config{Ports: 2, New: newHopping(drawHopping(t)), OutOfOrdernessMs: rapid.Int64Range(0, 30).Draw(t, "out of orderness")}
		if diff := optest.BackendDiff(t, c, drawIntegerRecords(t), pool.New, false); diff != "" {
			t.Fatal(diff)
		}
	})
}

// TestPlantedStaleLinksAreFound: links that a late row leaves as they were give other results than the memory.
func TestPlantedStaleLinksAreFound(t *testing.T) {
	pool, err := largePool()
	if err != nil {
		t.Fatal(err)
	}
	if pool == nil {
		t.Skip("built without Pebble")
	}
	for seed := range 500 {
		found := rapid.Custom(func(t *rapid.T) string {
			hop := drawHopping(t)
			c := optest.Config{Ports: 2, OutOfOrdernessMs: rapid.Int64Range(0, 30).Draw(t, "out of orderness"), New: func() pipeline.Operator {
				op := window.NewHopping(hop)
				op.PlantStaleLinks()
				return op
			}}
			return optest.BackendDiff(t, c, drawIntegerRecords(t), pool.New, false)
		}).Example(seed)
		if found != "" {
			return
		}
	}
	t.Error("not found")
}
