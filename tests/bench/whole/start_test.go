package whole

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/mqtt"
	"github.com/weirstream/weir/store/journal"
	"github.com/weirstream/weir/store/log"
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

// fillJournal adds 64 MiB of segments, with messages of the agent's own session.
func fillJournal(t testing.TB, dir string) {
	t.Helper()
	c := log.Default()
	c.ReserveBytes = 0
	j, _, err := journal.Open(journal.Options{Dir: dir, Config: c})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(7, 8))
	var payload []byte
	for n := 0; j.Stats().Log.LiveBytes < 64<<20; n++ {
		payload = appendPayload(payload[:0], random, 1767225600000+int64(n), n)
		_, err := j.Append(&pipeline.Entry{Kind: pipeline.EntryMessage, QoS: 1, PacketID: uint16(n%65535 + 1), Session: "rig", Source: "telemetry",
			Topic: []byte(topicOf(n % 100)), Payload: payload})
		if err != nil {
			t.Fatal(err)
		}
		if n%1000 == 999 {
			if err := j.Sync(context.Background()); err != nil {
				t.Fatal(err)
			}
		}
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
	config := mqtt.DefaultConfig()
	config.Name, config.URL, config.ClientID = "rig", "mqtt://127.0.0.1:1", "bench"
	source := mqtt.DefaultSource()
	source.Name, source.Filter = "telemetry", "site/+/dev/+/telemetry"
	config.Sources = []mqtt.SourceConfig{source}
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
		s, err := mqtt.NewSession(config, j, slog.New(slog.DiscardHandler), mqtt.Hooks{})
		if err != nil {
			b.Fatal(err)
		}
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
