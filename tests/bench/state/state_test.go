// Package state_test measures the state tables against their promises at 1M keys of 16 B with values of 64 B: heap per
// key, and how long a barrier stops the owner. It runs with WEIR_BENCH=1 (make bench).
package state_test

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline/state"
)

const (
	keys       = 1_000_000
	valueBytes = 64
	barriers   = 100

	heapPerKeyMax = 120
	barrierP99Max = time.Millisecond
)

func TestHeapAndBarrier(t *testing.T) {
	if os.Getenv("WEIR_BENCH") == "" {
		t.Skip("WEIR_BENCH is not set")
	}
	before := heapBytes()
	table := state.New(state.Spec{Name: "bench", Kind: state.Value, Type: "bench", Version: 1})
	for i := range keys {
		write(t, table, i)
	}
	table.Freeze().Commit()
	perKey := float64(heapBytes()-before) / keys
	t.Logf("heap: %.1f B per key", perKey)
	if perKey > heapPerKeyMax {
		t.Errorf("%.1f B of heap per key, want %d at most", perKey, heapPerKeyMax)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, percent := range []int{1, 10} {
		var stalls []time.Duration
		for range barriers {
			for range keys / 100 * percent {
				write(t, table, rnd.IntN(keys))
			}
			stalls = append(stalls, barrier(t, table))
		}
		slices.Sort(stalls)
		p50, p99, most := stalls[barriers/2], stalls[barriers*99/100-1], stalls[barriers-1]
		t.Logf("barrier, %d %% dirty: p50 %v, p99 %v, max %v", percent, p50, p99, most)
		if p99 > barrierP99Max {
			t.Logf("ABOVE TARGET: barrier p99 is %v, want %v at most; the machine's load is in it", p99, barrierP99Max)
		}
	}
}

func write(t *testing.T, table *state.Table, i int) {
	var k [16]byte
	binary.BigEndian.PutUint64(k[:], uint64(i))
	v, _, err := table.Upsert(k[:], valueBytes)
	if err != nil {
		t.Fatal(err)
	}
	v[0]++
}

// barrier gives the time the owner stands still, and lets the checkpoint commit.
func barrier(t *testing.T, table *state.Table) time.Duration {
	start := time.Now()
	table.Lock()
	f := table.Freeze()
	table.Unlock()
	stall := time.Since(start)
	if err := f.Encode(func(_, _, _ []byte, _ bool) error { return nil }); err != nil {
		t.Fatal(err)
	}
	f.Commit()
	return stall
}

func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
