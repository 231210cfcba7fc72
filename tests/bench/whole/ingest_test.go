package whole

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/mqtt"
	"github.com/weirstream/weir/store/journal"
	"github.com/weirstream/weir/store/log"
	"github.com/weirstream/weir/tests/rig"
)

// TestIngest is tap and journal: an ideal broker with a window of 1000 sends 120-byte messages at QoS 1, each is acknowledged when it
// is durable. The broker is another process; the CPU time is this process's.
func TestIngest(t *testing.T) {
	needBench(t)
	const messages, window, repetitions = 1_000_000, 1000, 3
	stop := profile(t, "ingest")
	var cpu, rate, allocs, perCommit []float64
	for range repetitions {
		r := ingest(t, messages, window)
		cpu, rate, allocs = append(cpu, r.cpu/messages*1e6), append(rate, messages/r.seconds/1000), append(allocs, r.allocs)
		perCommit = append(perCommit, r.perCommit)
	}
	stop()
	figure(t, "ingest CPU", "s/M", "<= 1.5", cpu...)
	figure(t, "ingest allocations per message", "", "0", allocs...)
	figure(t, "ingest rate", "k/s", "-", rate...)
	figure(t, "ingest messages per commit", "", "-", perCommit...)
}

type ingested struct{ cpu, seconds, allocs, perCommit float64 }

func ingest(t *testing.T, messages, window int) (r ingested) {
	addr, err := rig.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	broker, output := play(t, "broker", addr, messages, window)
	if err := rig.WaitListening(addr, nil); err != nil {
		t.Fatal(err)
	}
	c := log.Default()
	c.ReserveBytes = 0
	start := time.Now()
	j, _, err := journal.Open(journal.Options{Dir: t.TempDir(), Config: c, Stamp: func() pipeline.Stamp {
		return pipeline.Stamp{Elapsed: int64(time.Since(start)), Wall: time.Now().UnixMilli(), Trusted: true}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	s := sessionAt(t, addr, j)
	before := cpuSeconds()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	// The steady part: the second half.
	var half, end runtime.MemStats
	waitAcked(t, s, uint64(messages/2))
	runtime.ReadMemStats(&half)
	halfAcked := s.Stats().Acked
	waitAcked(t, s, uint64(messages))
	runtime.ReadMemStats(&end)
	r.cpu = cpuSeconds() - before
	r.allocs = float64(end.Mallocs-half.Mallocs) / float64(uint64(messages)-halfAcked)
	r.perCommit = float64(messages) / float64(j.Stats().Log.Syncs)
	cancel()
	if err := <-ended; err != nil && ctx.Err() == nil {
		t.Fatal(err)
	}
	if r.seconds, err = strconv.ParseFloat(finish(t, broker, output, time.Minute), 64); err != nil {
		t.Fatal(err)
	}
	if last := j.Last(); uint64(last) < uint64(messages) {
		t.Fatalf("the journal holds %d of %d messages", last, messages)
	}
	return r
}

// sessionAt is a session at the broker of that name in the agent's config (agentDir).
func sessionAt(t testing.TB, addr string, j *journal.Journal) *mqtt.Session {
	t.Helper()
	config := mqtt.DefaultConfig()
	config.Name, config.URL, config.ClientID = "rig", "mqtt://"+addr, "bench"
	source := mqtt.DefaultSource()
	source.Name, source.Filter = "telemetry", "site/+/dev/+/telemetry"
	config.Sources = []mqtt.SourceConfig{source}
	s, err := mqtt.NewSession(config, j, slog.New(slog.DiscardHandler), mqtt.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func waitAcked(t testing.TB, s *mqtt.Session, n uint64) {
	t.Helper()
	for deadline := time.Now().Add(3 * time.Minute); s.Stats().Acked < n; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("acknowledged %d of %d: %+v", s.Stats().Acked, n, s.Stats())
		}
	}
}

func cpuSeconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// profile writes a CPU profile to the directory WEIR_BENCH_PROFILES, when that is set.
func profile(t *testing.T, name string) (stop func()) {
	dir := os.Getenv("WEIR_BENCH_PROFILES")
	if dir == "" {
		return func() {}
	}
	f, err := os.Create(dir + "/" + name + ".pprof")
	if err != nil {
		t.Fatal(err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		t.Fatal(err)
	}
	return func() { pprof.StopCPUProfile(); f.Close() }
}
