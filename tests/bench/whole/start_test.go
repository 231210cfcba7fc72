package whole

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline/mqtt"
	"github.com/weirstream/weir/store/journal"
	"github.com/weirstream/weir/store/log"
	"github.com/weirstream/weir/tests/rig"
)

// TestStart is the time from the process's start to SUBSCRIBE on the wire: a first start, and one that recovers a journal of 64 MiB.
func TestStart(t *testing.T) {
	needBench(t)
	const repetitions = 5
	var first, again, full []float64
	for range repetitions {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		dir := agentDir(t, l.Addr().String())
		first = append(first, startOnce(t, dir, l))
		again = append(again, startOnce(t, dir, l))
		fillJournal(t, filepath.Join(dir, "state", "journal"))
		full = append(full, startOnce(t, dir, l))
		l.Close()
	}
	figure(t, "start to SUBSCRIBE, first", "ms", "<= 100", first...)
	figure(t, "start to SUBSCRIBE, again", "ms", "<= 100", again...)
	figure(t, "start to SUBSCRIBE, journal 64 MiB", "ms", "<= 100", full...)
}

func startOnce(t *testing.T, dir string, l net.Listener) (ms float64) {
	t.Helper()
	start := time.Now()
	agent := startAgent(t, dir)
	conn, err := subscribed(l)
	if err != nil {
		t.Fatal(err)
	}
	ms = float64(time.Since(start)) / float64(time.Millisecond)
	time.Sleep(300 * time.Millisecond) // the first checkpoint
	if err := agent.Stop(30 * time.Second); err != nil {
		t.Fatalf("stop the agent: %v\n%s", err, read(filepath.Join(dir, "weir.log")))
	}
	conn.Close()
	return ms
}

// fillJournal adds 64 MiB of segments as a session of the agent's broker writes them.
func fillJournal(t testing.TB, dir string) {
	t.Helper()
	const messages, window, liveBytes = 2_300_000, 20_000, 64 << 20
	addr, err := rig.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	play(t, "broker", addr, messages, window)
	if err := rig.WaitListening(addr, nil); err != nil {
		t.Fatal(err)
	}
	c := log.Default()
	c.ReserveBytes = 0
	j, _, err := journal.Open(journal.Options{Dir: dir, Config: c})
	if err != nil {
		t.Fatal(err)
	}
	s := sessionAt(t, addr, j)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	waitAcked(t, s, messages)
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if live := j.Stats().Log.LiveBytes; live < liveBytes {
		t.Fatalf("the journal has %d bytes, want %d", live, liveBytes)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestBinarySize is the stripped agent for 64-bit ARM.
func TestBinarySize(t *testing.T) {
	needBench(t)
	name := filepath.Join(t.TempDir(), "weir-arm64")
	if err := buildAgent(name, "GOOS=linux", "GOARCH=arm64"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	figure(t, "arm64 binary", "MB", "<= 14", float64(info.Size())/1e6)
}

// BenchmarkRecover is what of a start grows with the journal: its recovery, and the pass that rebuilds the dedup table.
func BenchmarkRecover(b *testing.B) {
	dir := b.TempDir()
	fillJournal(b, dir)
	open := func(b *testing.B) *journal.Journal {
		j, _, err := journal.Open(journal.Options{Dir: dir, Config: log.Default()})
		if err != nil {
			b.Fatal(err)
		}
		return j
	}
	b.Run("open", func(b *testing.B) {
		for b.Loop() {
			open(b).Close()
		}
	})
	b.Run("rebuild", func(b *testing.B) {
		j := open(b)
		defer j.Close()
		s := sessionAt(b, "127.0.0.1:1", j)
		for b.Loop() {
			before := cpuSeconds()
			if err := mqtt.Rebuild(j, s); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric((cpuSeconds()-before)*1000, "cpu-ms")
		}
		b.ReportMetric(float64(j.Last()), "entries")
	})
}
