package state_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/store/pebblekv"
)

// Each figure comes from a process of its own: the resident memory of a process never goes back. The test's own binary is the child.
const roleEnv = "WEIR_BENCH_STATE"

const (
	memoryKeys  = 1_000_000
	memoryMiB   = 150
	largeKeys   = 10_000_000
	largeMiB    = 128
	stateMemory = 32 << 20

	gcPercent = 50 // as the agent's
)

var roles = map[string]func() error{
	"memory":       func() error { return fill(state.New, memoryKeys, nil) },
	"large":        func() error { return fillLarge(largeKeys) },
	"large-1M":     func() error { return fillLarge(memoryKeys) },
	"memory-small": func() error { return updates(1_000) },
	"memory-1M":    func() error { return updates(memoryKeys) },

	"refill-memory-2M": func() error { return refill(joinKeys, state.New) },
	"refill-2M":        func() error { return refillLarge(joinKeys) },
	"refill-10M":       func() error { return refillLarge(largeKeys) },
	"interval-memory":  func() error { return joined(intervalJoin(), state.New) },
	"interval-large":   func() error { return joinedLarge(intervalJoin()) },
	"latest-memory":    func() error { return joined(latestJoin(), state.New) },
	"latest-large":     func() error { return joinedLarge(latestJoin()) },
}

func TestMain(m *testing.M) {
	role := os.Getenv(roleEnv)
	if role == "" {
		os.Exit(m.Run())
	}
	debug.SetGCPercent(gcPercent)
	if err := roles[role](); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child runs a role and gives the figures that it printed.
func child(t *testing.T, role string) map[string]float64 {
	t.Helper()
	if os.Getenv("WEIR_BENCH") == "" {
		t.Skip("WEIR_BENCH is not set")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role, "TMPDIR="+t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", role, err, out)
	}
	figures := map[string]float64{}
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		figures[name], _ = strconv.ParseFloat(value, 64)
	}
	t.Logf("%s: %s", role, strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", ", "))
	return figures
}

// TestMemoryBackendFits: 1M keys of 16 B with values of 64 B.
func TestMemoryBackendFits(t *testing.T) {
	if got := child(t, "memory")["resident_MiB"]; got > memoryMiB {
		t.Errorf("1M keys take %.0f MiB, want %d at most", got, memoryMiB)
	}
}

// TestLargeBackendFits: 10M keys of 16 B with values of 64 B and state.memory at its default, with checkpoints as they are written.
func TestLargeBackendFits(t *testing.T) {
	if !pebblekv.Built {
		t.Skip("built without Pebble")
	}
	if got := child(t, "large")["resident_MiB"]; got > largeMiB {
		t.Errorf("10M keys take %.0f MiB, want %d at most", got, largeMiB)
	}
}

// fill writes keys in no order, checkpoint by checkpoint, then changes some again, and prints the figures.
func fill(table func(state.Spec) *state.Table, keys int, more func()) error {
	t := table(state.Spec{Name: "bench", Kind: state.Value, Type: "bench", Version: 1})
	start := cpu()
	const perCheckpoint = 500_000
	for i := range keys {
		if err := touch(t, scatter(i)); err != nil {
			return err
		}
		if i%perCheckpoint == perCheckpoint-1 {
			if _, err := checkpoint(t); err != nil {
				return err
			}
		}
	}
	fmt.Printf("fill_us_per_key %.2f\n", float64(cpu()-start)/float64(keys)/1e3)
	const changes = 1_000_000
	start = cpu()
	var stall time.Duration
	for i := range changes {
		if err := touch(t, scatter(i*7919%keys)); err != nil {
			return err
		}
		if i%(changes/10) == changes/10-1 {
			s, err := checkpoint(t)
			if err != nil {
				return err
			}
			stall = max(stall, s)
		}
	}
	fmt.Printf("change_us_per_key %.2f\nbarrier_ms %.2f\nresident_MiB %.0f\n", float64(cpu()-start)/changes/1e3, float64(stall)/1e6, resident())
	if more != nil {
		more()
	}
	return nil
}

func fillLarge(keys int) error {
	dir, err := os.MkdirTemp("", "weir-state-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	db, err := pebblekv.Open(pebblekv.Options{Dir: filepath.Join(dir, "state"), MemoryBytes: stateMemory - stateMemory/4})
	if err != nil {
		return err
	}
	pool := state.NewPool(db, stateMemory/4)
	err = fill(pool.New, keys, func() {
		m := db.Metrics()
		fmt.Printf("disk_MB %.0f\nwritten_MB %.0f\n", float64(m.Disk)/1e6, float64(m.Written)/1e6)
	})
	if closed := db.Close(); err == nil {
		err = closed
	}
	return err
}

// scatter spreads numbers over 64 bits, each once.
func scatter(i int) uint64 { return uint64(i) * 0x9e3779b97f4a7c15 }

func touch(t *state.Table, key uint64) error {
	var k [16]byte
	binary.BigEndian.PutUint64(k[:], key)
	v, _, err := t.Upsert(k[:], valueBytes)
	if err == nil {
		v[0]++
		binary.LittleEndian.PutUint64(v[8:], key*31)
	}
	return err
}

// checkpoint encodes what changed, and gives the time the owner stands still.
func checkpoint(t *state.Table) (time.Duration, error) {
	start := time.Now()
	t.Lock()
	f := t.Freeze()
	t.Unlock()
	stall := time.Since(start)
	if err := f.Encode(func(_, _, _ []byte, _ bool) error { return nil }); err != nil {
		return 0, err
	}
	f.Commit()
	return stall, nil
}

// cpu is the time that this process has used, in ns.
func cpu() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail for the process itself
	return u.Utime.Nano() + u.Stime.Nano()
}

// resident is the most that was ever resident, in MiB.
func resident() float64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			return n / 1024
		}
	}
	return 0
}
