package engine_test

import (
	"fmt"
	"io"
	"runtime"
	"testing"
)

const telemetryHead = `
gateway: bench
state_dir: /nowhere
brokers: {rig: {url: "tcp://127.0.0.1:1"}}
sources:
  s:
    mqtt: {broker: rig, topic: t, qos: 1}
    fields: {key: string, ts: int, v: float}
    time: {field: ts, unit: ms}
pipelines:
  p:
    steps:
      - `

const telemetryTail = `
    sinks:
      - {uid: results, from: out, file: {path: results.jsonl}}
`

// telemetry is a recording of rows of keys, in turns; each round of the keys takes roundMs of event time.
func telemetry(rows, keys int, roundMs int64) []byte {
	var out []byte
	for n := range rows {
		at := 1767225600000 + int64(n/keys)*roundMs
		payload := fmt.Sprintf(`{"key":"device-%07d","ts":%d,"v":%d.%d}`, n%keys, at, 15+n*7%20, n%10)
		out = fmt.Appendf(out, "{\"n\":%d,\"at_ms\":%d,\"topic\":\"t\",\"qos\":1,\"payload\":%q}\n", n, at, payload)
	}
	return out
}

// TestHopping is a window of an hour that slides by a second beside windows of a second: each key has a row a second, so that both give as many
// results. The recording is long enough that windows fill and are forgotten; what is measured is the difference between a long and a short one.
func TestHopping(t *testing.T) {
	needBench(t)
	const keys, repetitions = 20, 5
	short, long := telemetry(keys*3700, keys, 1000), telemetry(keys*7400, keys, 1000)
	steady := func(window string) float64 {
		text := telemetryHead + "{uid: out, from: s, by: [key], window: {" + window + "}, aggregate: {n: count(), mean: avg(v), high: max(v)}}" + telemetryTail
		var a, b uint64
		begin := cpuOf(func() { a = run(t, text, short, io.Discard) })
		whole := cpuOf(func() { b = run(t, text, long, io.Discard) })
		if b-a != keys*3700 {
			t.Fatalf("%s: %d results more for %d rows more", window, b-a, keys*3700)
		}
		return float64((whole - begin).Nanoseconds()) / (keys * 3700)
	}
	var tumbling, hopping, ratio []float64
	for range repetitions {
		one, hour := steady("tumbling: 1s"), steady("hopping: 1h, slide: 1s")
		tumbling, hopping, ratio = append(tumbling, one), append(hopping, hour), append(ratio, hour/one)
	}
	figure(t, "tumbling 1s", "ns/record", "-", tumbling...)
	figure(t, "hopping 1h by 1s", "ns/record", "-", hopping...)
	figure(t, "hopping 1h by 1s / tumbling 1s", "x", "<= 3", ratio...)
}

// keyed are steps that keep state per key.
var keyed = []struct{ name, step string }{
	{"tumbling", "{uid: out, from: s, by: [key], window: {tumbling: 1d}, aggregate: {n: count(), mean: avg(v), high: max(v)}}"},
	{"deadband", "{uid: out, from: s, by: [key], deadband: {value: v, threshold: 15}}"},
	{"alarm", `{uid: out, from: s, by: [key], alarm: {value: v, raise: "> 30", clear: "< 20"}}`},
	{"dedup", "{uid: out, from: s, dedup: {key: [key]}, ttl: 1d}"},
}

// TestManyKeys is a row of one of a million keys beside a row of one of a thousand. All rows but the first of each key count.
func TestManyKeys(t *testing.T) {
	needBench(t)
	const few, many, rows, repetitions = 1_000, 1_000_000, 500_000, 3
	steady := func(step string, keys int, begin, whole []byte) float64 {
		text := telemetryHead + step + telemetryTail
		first := cpuOf(func() { run(t, text, begin, io.Discard) })
		all := cpuOf(func() { run(t, text, whole, io.Discard) })
		return float64((all - first).Nanoseconds()) / rows
	}
	fewBegin, fewWhole := telemetry(few, few, 1000), telemetry(few+rows, few, 1000)
	manyBegin, manyWhole := telemetry(many, many, 1000), telemetry(many+rows, many, 1000)
	for _, k := range keyed {
		var ratio, small, large []float64
		for range repetitions {
			a, b := steady(k.step, few, fewBegin, fewWhole), steady(k.step, many, manyBegin, manyWhole)
			small, large, ratio = append(small, a), append(large, b), append(ratio, b/a)
		}
		figure(t, k.name+", 1k keys", "ns/record", "-", small...)
		figure(t, k.name+", 1M keys", "ns/record", "-", large...)
		figure(t, k.name+", 1M keys / 1k keys", "x", "<= 3", ratio...)
	}
}

// stateless and keyed steps that allocate nothing for a record once their keys are known.
var steady = []struct{ name, step string }{
	{"filter", "{uid: out, from: s, filter: v > 30}"},
	{"select", "{uid: out, from: s, select: {key: key, twice: v * 2, ts: ts}}"},
	{"tumbling", "{uid: out, from: s, by: [key], window: {tumbling: 1s}, aggregate: {n: count(), mean: avg(v), high: max(v)}}"},
	{"deadband", "{uid: out, from: s, by: [key], deadband: {value: v, threshold: 15}}"},
	{"alarm", `{uid: out, from: s, by: [key], alarm: {value: v, raise: "> 30", clear: "< 20"}}`},
}

// TestAllocations is the whole way through the engine, decoding and encoding too: allocations of a long recording less those of a short one. Blocks
// of the recording are allocated, so many records to one: the figure of the recording without a step is printed beside it. That the operators
// themselves allocate nothing is a test of their packages.
func TestAllocations(t *testing.T) {
	needBench(t)
	short, long := telemetry(100_000, 100, 1000), telemetry(300_000, 100, 1000)
	for _, s := range steady {
		text := telemetryHead + s.step + telemetryTail
		allocations := func(recording []byte) uint64 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			run(t, text, recording, io.Discard)
			runtime.ReadMemStats(&after)
			return after.Mallocs - before.Mallocs
		}
		var per []float64
		for range 3 {
			begin := allocations(short)
			per = append(per, (float64(allocations(long))-float64(begin))/200_000)
		}
		figure(t, s.name+", whole way", "allocs/record", "< 0.05", per...)
	}
}
