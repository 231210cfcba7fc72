package whole

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
)

// configOf is the pipeline that all measurements share: JSON of four fields, a filter, a 1 s keyed window over 100 devices.
func configOf(dir, broker, receiver string) string {
	return strings.NewReplacer("DIR", dir, "BROKER", broker, "RECEIVER", receiver).Replace(`
gateway: bench
state_dir: DIR/state
security: {allow_private: true}
brokers:
  rig: {url: "tcp://BROKER", client_id: weir-bench}
sources:
  telemetry:
    mqtt: {broker: rig, topic: "site/+/dev/+/telemetry", qos: 1}
    decode: json
    fields: {ts: int, device: string, temperature: float, humidity: float}
    time: {field: ts, unit: ms, out_of_orderness: 1s}
pipelines:
  averages:
    start: earliest
    checkpoint: {interval: 1s}
    steps:
      - {uid: dry, from: telemetry, filter: humidity < 75}
      - {uid: mean, from: dry, by: [device], window: {tumbling: 1s}, aggregate: {n: count(), mean: avg(temperature)}}
    sinks:
      - {uid: out, from: mean, http: {url: "http://RECEIVER/weir"}}
`)
}

// recordingRate is how many messages of the recording lie in a second.
const recordingRate = 10_000

func writeRecording(t *testing.T, name string, lines int) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	random := rand.New(rand.NewPCG(5, 6))
	var payload []byte
	for n := range lines {
		at := 1767225600000 + int64(n)*1000/recordingRate
		payload = appendPayload(payload[:0], random, at, n)
		fmt.Fprintf(w, "{\"n\":%d,\"at_ms\":%d,\"topic\":%q,\"qos\":1,\"payload\":%q}\n", n+1, at, topicOf(n%100), payload)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestReplay is `weir replay` of the pipeline against a loop written by hand, over the same recording.
func TestReplay(t *testing.T) {
	needBench(t)
	const lines, repetitions = 1_000_000, 7
	dir := t.TempDir()
	recording, config := filepath.Join(dir, "recording.jsonl"), filepath.Join(dir, "weir.yaml")
	writeRecording(t, recording, lines)
	if err := os.WriteFile(config, []byte(configOf(dir, "127.0.0.1:1", "127.0.0.1:1")), 0o644); err != nil {
		t.Fatal(err)
	}
	var ours, hand, ratio, peak []float64
	for range repetitions {
		loop, output := play(t, "handloop", recording)
		byHand := strings.Count(finish(t, loop, output, 2*time.Minute), "\n") + 1
		loopCPU, _ := loop.Usage()
		replayed := filepath.Join(t.TempDir(), "replay.out")
		agent, err := rig.StartChild(replayed, nil, weir, "replay", "--pipeline", config, "--input", recording, "-q")
		if err != nil {
			t.Fatal(err)
		}
		byWeir := strings.Count(finish(t, agent, replayed, 2*time.Minute), "\n") // the last line is the ledger
		cpu, bytes := agent.Usage()
		if byHand != byWeir {
			t.Fatalf("weir has %d windows, the loop %d: %s", byWeir, byHand, read(replayed))
		}
		ours, hand = append(ours, cpu.Seconds()), append(hand, loopCPU.Seconds())
		ratio, peak = append(ratio, cpu.Seconds()/loopCPU.Seconds()), append(peak, float64(bytes)/(1<<20))
	}
	figure(t, "replay CPU / hand-written loop", "x", "<= 2.5", ratio...)
	figure(t, "replay CPU / hand-written loop, best", "x", "<= 2.2", slices.Min(ours)/slices.Min(hand)) // what else runs on the machine says least in the best runs
	figure(t, "replay CPU", "s/M", "-", ours...)
	figure(t, "hand-written loop CPU", "s/M", "-", hand...)
	figure(t, "replay peak RSS", "MiB", "-", peak...)
}
