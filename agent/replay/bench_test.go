package replay

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline/topic"
)

const benchConfig = `
gateway: bench
state_dir: /nowhere
security: {allow_private: true}
brokers:
  rig: {url: "tcp://127.0.0.1:1", client_id: weir-bench}
sources:
  telemetry:
    mqtt: {broker: rig, topic: "site/+/dev/+/telemetry", qos: 1}
    decode: json
    fields: {ts: int, device: string, temperature: float, humidity: float}
    time: {field: ts, unit: ms, out_of_orderness: 1s}
pipelines:
  averages:
    steps:
      - {uid: dry, from: telemetry, filter: humidity < 75}
      - {uid: mean, from: dry, by: [device], window: {tumbling: 1s}, aggregate: {n: count(), mean: avg(temperature)}}
    sinks:
      - {uid: out, from: mean, http: {url: "http://127.0.0.1:1/weir"}}
`

// BenchmarkReplay is one recorded delivery on its way through JSON, a filter and a keyed window.
func BenchmarkReplay(b *testing.B) { replayBench(b, 1) }

// BenchmarkReplayParallel is the same in two instances: run with -cpu 1,2 and set beside BenchmarkReplay.
func BenchmarkReplayParallel(b *testing.B) { replayBench(b, 2) }

func replayBench(b *testing.B, parallelism int) {
	cfg, err := config.Parse("bench.yaml", []byte(benchConfig))
	if err != nil {
		b.Fatal(err)
	}
	const lines = 20_000
	var recording []byte
	for n := range lines {
		at := 1767225600000 + int64(n)/10
		payload := fmt.Sprintf(`{"ts":%d,"device":"dev-%03d","temperature":%d.%02d,"humidity":%d.%d,"status":"ok","seq":%d,"site":"abcdef"}`,
			at, n*31%100, 15+n%20, n*7%100, 30+n%50, n%10, n)
		recording = fmt.Appendf(recording, "{\"n\":%d,\"at_ms\":%d,\"topic\":\"site/a/dev/%03d/telemetry\",\"qos\":1,\"payload\":%q}\n", n+1, at, n%100, payload)
	}
	g := cfg.Pipelines[0].Graph
	g.Parallelism = parallelism
	routes := []Route{{Source: g.Sources[0].Name, Match: func(name []byte) bool { return topic.Match(g.Sources[0].Filter, name) }}}
	b.ReportAllocs()
	b.ResetTimer()
	for range (b.N + lines - 1) / lines {
		if _, err := Run(b.Context(), Options{Graph: g, Routes: routes, Input: bytes.NewReader(recording), Out: io.Discard}); err != nil {
			b.Fatal(err)
		}
	}
}
