package state_test

import (
	"fmt"
	"testing"

	"github.com/weirstream/weir/pipeline/state"
)

// counting counts what a table asks of its store.
type counting struct {
	state.Backing
	gets, iters, applies *int
}

func (c counting) Get(dst, key []byte) ([]byte, bool, error) {
	*c.gets++
	return c.Backing.Get(dst, key)
}

func (c counting) Iter(lower, upper []byte) (state.Iter, error) {
	*c.iters++
	return c.Backing.Iter(lower, upper)
}

func (c counting) Batch() state.Batch { return countingBatch{c.Backing.Batch(), c.applies} }

type countingBatch struct {
	state.Batch
	applies *int
}

func (b countingBatch) Apply() error {
	*b.applies++
	return b.Batch.Apply()
}

// TestLenLooksAtEachEntryOncePerTTL: asked at each move of the clock, Len costs no walk of the store and no write each time, whatever becomes due.
func TestLenLooksAtEachEntryOncePerTTL(t *testing.T) {
	const steps = 4000
	for _, ttl := range []int64{100, 700, 1300} { // keys come again after 1000 steps
		var gets, iters, applies int
		table := state.NewPool(counting{backing(t), &gets, &iters, &applies}, 8<<20).New(value(ttl, 0))
		for i := range 2 * steps {
			if i == steps {
				gets, iters, applies = 0, 0, 0
			}
			table.SetNow(int64(i))
			if err := table.Put(fmt.Appendf(nil, "key%d", i*7919%1000), make([]byte, 40)); err != nil {
				t.Fatal(err)
			}
			if n, want := table.Len(), min(int64(i)+1, ttl, 1000); int64(n) != want {
				t.Fatalf("ttl %d, step %d: Len is %d, want %d", ttl, i, n, want)
			}
		}
		if gets > steps || iters > steps/50 || applies > steps/50 {
			t.Errorf("ttl %d: %d steps took %d gets, %d walks and %d writes, want %d, %d, %d at most", ttl, steps, gets, iters, applies, steps, steps/50, steps/50)
		}
	}
}
