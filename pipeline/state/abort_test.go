package state_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/pipeline/state"
)

// TestRule15_FreezeDuringAbort: a Freeze in the middle of an Abort's tidying has all of the changes or none.
func TestRule15_FreezeDuringAbort(t *testing.T) {
	const n = 20_000
	table := state.New(value(0, 0))
	for i := range n {
		_ = table.Put(fmt.Appendf(nil, "k%d", i), []byte("v"))
		if i%2 == 0 {
			table.Delete(fmt.Appendf(nil, "k%d", i))
		}
	}
	for range 5 {
		f := table.Freeze()
		var abort sync.WaitGroup
		var over atomic.Bool
		abort.Go(func() { f.Abort(); over.Store(true) })
		whole := 0
		for whole == 0 {
			last := over.Load()
			table.Lock()
			g := table.Freeze()
			table.Unlock()
			switch g.Len() {
			case n:
				whole++
			case 0: // before the abort: g stands for no change
				if last {
					t.Fatal("the changes are lost")
				}
			default:
				t.Fatalf("a checkpoint has %d changes of %d", g.Len(), n)
			}
			if whole == 0 {
				g.Commit()
				continue
			}
			abort.Wait()
			if got := encode(t, g); !got[[2]string{"k0"}].deleted || got[[2]string{"k1"}].val != "v" {
				t.Fatal("a change is not what it was")
			}
			g.Abort()
		}
	}
	table.Freeze().Commit()
	check(t, table)
	if dead, all := table.Tombstones(); dead != 0 || all != n/2 {
		t.Errorf("%d tombstones of %d entries are left", dead, all)
	}
}
