package outbox

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
)

// rowText is a result as a window makes it: it compresses as such rows do.
func rowText(rnd *rand.Rand, seq uint64) []byte {
	return fmt.Appendf(nil, `{"device":"pump-%02d","window_start":%d,"window_end":%d,"count":60,"avg":%.4f,"max":%.3f}`,
		seq%40, 1_790_000_000_000+seq*250, 1_790_000_060_000+seq*250, 20+rnd.Float64()*60, 80+rnd.Float64()*10)
}

// fillDisk makes an outbox that holds bytes of payload.
func fillDisk(t testing.TB, dir string, bytes int64) (results uint64) {
	t.Helper()
	o, _, err := Open(Options{FS: disk.OS, Dir: dir, Config: fullConfig()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := o.Stream("k", StreamOptions{Mode: ImmediateCommit, MaxBytes: bytes})
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Cut(t.Context(), nil, Incarnation{Major: 1}); err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	var chain, seq uint64
	for batch := []pipeline.Result(nil); ; batch = batch[:0] {
		var size int64
		for range 500 {
			seq++
			p := rowText(rnd, seq)
			chain, size = nextChain(chain, p), size+int64(len(p))
			batch = append(batch, pipeline.Result{Seq: seq, Last: seq, Chain: chain, Pos: pipeline.Position(seq), Kind: pipeline.ResultData, Time: int64(seq), Payload: p})
		}
		if s.Stats().WaitingBytes+size > bytes {
			break
		}
		results = seq
		if err := s.Emit(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	b := pipeline.Barrier{ID: 1}
	if err := s.Barrier(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if _, err := o.Seal(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	return results
}

func fullConfig() Config {
	c := Default()
	c.Log.ReserveBytes = 0
	return c
}

func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// TestRestartWithAFullOutbox: recovery reads the log once, in bounded memory. WEIR_FULL is how many MiB of results wait (CI: 64).
func TestRestartWithAFullOutbox(t *testing.T) {
	mib := int64(64)
	if v := os.Getenv("WEIR_FULL"); v != "" {
		if _, err := fmt.Sscan(v, &mib); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	results := fillDisk(t, dir, mib<<20)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	at, cpu := time.Now(), cpuTime(t)
	o, rec, err := Open(Options{FS: disk.OS, Dir: dir, Config: fullConfig()})
	if err != nil {
		t.Fatal(err)
	}
	took, used := time.Since(at), cpuTime(t)-cpu
	runtime.ReadMemStats(&after)
	total := after.TotalAlloc - before.TotalAlloc
	heap := after.HeapSys - before.HeapSys
	runtime.GC()
	runtime.ReadMemStats(&after)
	held := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d results, %d MiB of payload, %d MiB of log: %s of CPU, %s, %d KiB held, %d KiB of heap taken, %d MiB allocated", rec.Results, rec.Bytes>>20,
		o.Stats().LiveBytes>>20, used, took, held>>10, heap>>10, total>>20)
	if limit := int64(8 << 20); held > limit { // the index alone: nothing per result
		t.Errorf("%d KiB held, %d at most, whatever waits", held>>10, limit>>10)
	}
	if limit := 2 * time.Second; mib <= 1024 && used > limit && !testing.Short() { // -short: emulated processors
		t.Errorf("%s of CPU, %s at most", used, limit)
	}
	if rec.Results != results || len(rec.Damaged) != 0 {
		t.Errorf("%d results, want %d; damage %v", rec.Results, results, rec.Damaged)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}
