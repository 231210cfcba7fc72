package state_test

import (
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline/state"
)

const (
	benchKeys  = 1_000_000
	benchValue = 64
)

// benchKey writes key i, 16 bytes.
func benchKey(b []byte, i int) []byte {
	binary.BigEndian.PutUint64(b[:8], uint64(i))
	binary.BigEndian.PutUint64(b[8:16], uint64(i)*0x9e3779b97f4a7c15)
	return b[:16]
}

func fill(tb testing.TB, spec state.Spec, n int) *state.Table {
	t := state.New(spec)
	var k [16]byte
	for i := range n {
		b, _, err := t.Upsert(benchKey(k[:], i), benchValue)
		if err != nil {
			tb.Fatal(err)
		}
		b[0] = byte(i)
	}
	t.Freeze().Commit()
	return t
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkUpsertHot(b *testing.B) {
	for name, ttl := range map[string]int64{"plain": 0, "ttl": 1 << 40} {
		b.Run(name, func(b *testing.B) {
			t := fill(b, value(ttl, 0), 100)
			var k [16]byte
			b.ReportAllocs()
			start := cpu()
			for i := 0; b.Loop(); i++ {
				if ttl > 0 {
					t.SetNow(int64(i))
				}
				v, _, _ := t.Upsert(benchKey(k[:], i%100), benchValue)
				v[0]++
			}
			b.ReportMetric(float64(cpu()-start)/float64(b.N), "cpu-ns/op")
		})
	}
}

// cpu is the process's processor time: on a busy machine wall time tells little.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkMillion(b *testing.B) {
	t := fill(b, value(0, 0), benchKeys)
	var k [16]byte
	rnd := rand.New(rand.NewPCG(1, 2))
	b.Run("get", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, ok := t.Get(benchKey(k[:], rnd.IntN(benchKeys))); !ok {
				b.Fatal("a key is missing")
			}
		}
	})
	b.Run("put", func(b *testing.B) {
		var val [benchValue]byte
		b.ReportAllocs()
		for b.Loop() {
			_ = t.Put(benchKey(k[:], rnd.IntN(benchKeys)), val[:])
		}
	})
	b.Run("upsert", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v, _, _ := t.Upsert(benchKey(k[:], rnd.IntN(benchKeys)), benchValue)
			v[0]++
		}
	})
}

// BenchmarkInsert reports the longest of all inserts up to 1M keys: there is no rehash. It includes the machine's noise.
func BenchmarkInsert(b *testing.B) {
	var longest time.Duration
	for b.Loop() {
		t := state.New(value(0, 0))
		var k [16]byte
		for i := range benchKeys {
			start := time.Now()
			_, _, _ = t.Upsert(benchKey(k[:], i), benchValue)
			longest = max(longest, time.Since(start))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchKeys, "ns/insert")
	b.ReportMetric(float64(longest.Microseconds()), "max-us/insert")
}

func BenchmarkHeap(b *testing.B) {
	for name, ttl := range map[string]int64{"plain": 0, "ttl": 1 << 40} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				before := heap()
				t := fill(b, value(ttl, 0), benchKeys)
				b.ReportMetric(float64(heap()-before)/benchKeys, "B/key")
				start := time.Now()
				runtime.GC()
				b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "gc-ms")
				runtime.KeepAlive(t)
			}
		})
	}
}

// BenchmarkBarrier: Lock, Freeze and Unlock by the owner with 1M keys, while the previous checkpoint has been committed;
// then Encode beside an owner that goes on writing (the wait for the lock is what a write may stall).
func BenchmarkBarrier(b *testing.B) {
	for name, dirty := range map[string]int{"1pct": benchKeys / 100, "10pct": benchKeys / 10} {
		b.Run(name, func(b *testing.B) {
			t := fill(b, value(0, 0), benchKeys)
			rnd := rand.New(rand.NewPCG(1, 2))
			var stalls, waits []time.Duration
			var encoding time.Duration
			entries := 0
			for b.Loop() {
				touchRandom(t, rnd, dirty)
				start := time.Now()
				t.Lock()
				f := t.Freeze()
				t.Unlock()
				stalls = append(stalls, time.Since(start))
				done := make(chan time.Duration)
				go func() {
					start := time.Now()
					_ = f.Encode(func(_, _, _ []byte, _ bool) error { return nil })
					d := time.Since(start)
					f.Commit()
					done <- d
				}()
				entries += f.Len()
				waits = append(waits, writeUntil(t, rnd, done, &encoding)...)
			}
			reportQuantiles(b, stalls, "barrier")
			reportQuantiles(b, waits, "lock")
			b.ReportMetric(float64(entries)/encoding.Seconds()/1e6, "M-encoded/s")
		})
	}
}

func touchRandom(t *state.Table, rnd *rand.Rand, n int) {
	var k [16]byte
	for range n {
		v, _, _ := t.Upsert(benchKey(k[:], rnd.IntN(benchKeys)), benchValue)
		v[0]++
	}
}

// writeUntil writes batches of 100 until the encoder is done, and gives the waits for the lock.
func writeUntil(t *state.Table, rnd *rand.Rand, done chan time.Duration, took *time.Duration) (waits []time.Duration) {
	for {
		select {
		case d := <-done:
			*took += d
			return waits
		default:
		}
		start := time.Now()
		t.Lock()
		waits = append(waits, time.Since(start))
		touchRandom(t, rnd, 100)
		t.Unlock()
		runtime.Gosched()
	}
}

func reportQuantiles(b *testing.B, d []time.Duration, name string) {
	slices.Sort(d)
	us := func(q float64) float64 { return float64(d[int(q*float64(len(d)-1))].Nanoseconds()) / 1000 }
	b.ReportMetric(us(0.5), name+"-p50-us")
	b.ReportMetric(us(0.99), name+"-p99-us")
	b.ReportMetric(us(1), name+"-max-us")
}
