package portable

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// setting is what may change from one life of the pipeline to the next.
type setting struct {
	parallelism    int
	backend, store string
}

// config has every step that keeps state. None of them goes by the clock, so that two agents make the same of the same messages.
func (s setting) config(dir, broker, client string) string {
	return strings.NewReplacer("DIR", dir, "BROKER", broker, "CLIENT", client,
		"PARALLELISM", strconv.Itoa(s.parallelism), "BACKEND", s.backend, "STORE", s.store).Replace(head) + sinks()
}

const head = `
gateway: portable
state_dir: DIR/state
security: {file_root: DIR/files, allow_private: true}
api: {socket: DIR/s}
brokers:
  rig: {url: "tcp://BROKER", client_id: CLIENT}
sources:
  a:
    mqtt: {broker: rig, topic: "t/a/+"}
    decode: json
    fields: {id: int, k: string, ts: int, v: int, f: float, big: any}
    time: {field: ts, unit: ms, out_of_orderness: 8ms}
  b:
    mqtt: {broker: rig, topic: "t/b/+"}
    decode: json
    fields: {id: int, k: string, ts: int, v: int, f: float, big: any}
    time: {field: ts, unit: ms, out_of_orderness: 8ms}
pipelines:
  p:
    start: earliest
    parallelism: PARALLELISM
    state: {backend: BACKEND}
    checkpoint: {interval: 300ms, store: STORE}
    steps:
      - {uid: math, from: a, select: {id: id, k: k, x: "f * 1.1 + v / 3 - f / 7", y: "sqrt(abs(f)) * f + log(abs(f) + 1) - pow(abs(f), 0.25)", n: "big", t: "string(f)"}}
      - uid: tumbling
        from: a
        by: [k]
        window: {tumbling: 60ms, allowed_lateness: 20ms}
        aggregate: {n: count(), sum: sum(f), mean: avg(f), sd: stddev(f), sample: variance_samp(f / 3), p95: "percentile(f, 95)", mid: median(f), kinds: distinct(v), ids: "collect(id, 20)", big: sum(int(big % 1000003)), up: increase(v), rate: rate(v)}
      - {uid: hopping, from: b, by: [k], window: {hopping: 100ms, slide: 20ms, early: 40ms}, aggregate: {n: count(), mean: avg(f), sd: stddev_samp(f), low: min(f), high: max(f)}}
      - {uid: session, from: a, by: [k], window: {session: 15ms, touching: split}, aggregate: {n: count(), sum: sum(f), first: first(id), last: last(id)}}
      - {uid: counted, from: b, by: [k], window: {count: 9, slide: 4}, aggregate: {n: count(), mean: avg(f), rate: rate(v)}}
      - {uid: condition, from: a, by: [k], window: {state: "v > 15"}, aggregate: {n: count(), sum: sum(f)}}
      - {uid: best, from: a, by: [k], window: {tumbling: 80ms}, top: {n: 2, order: f desc}}
      - {uid: interval, from: [a, b], join: {on: [k], within: {before: 12ms, after: 6ms}, type: full, select: {l: left.id, r: right.id, d: "left.f * 0.3 - right.f * 0.7"}}}
      - {uid: windowed, from: [a, b], join: {on: [k], window: {tumbling: 10ms}, type: left, select: {l: left.id, r: right.id}}}
      - {uid: latest, from: [a, b], join: {on: [k], latest: true, type: left, select: {l: left.id, r: right.id, d: "left.f / (abs(right.f) + 1)"}}}
      - {uid: fresh, from: b, dedup: {key: [k, v]}}
      - {uid: band, from: a, by: [k], deadband: {value: f, threshold: 200}}
      - {uid: alarm, from: a, by: [k], alarm: {value: v, raise: "> 30", clear: "< 10"}}
      - {uid: changed, from: b, by: [k], changed: {value: "v % 3"}}
      - {uid: lag, from: a, by: [k], lag: {value: f, n: 3}}
      - {uid: delta, from: a, by: [k], delta: {value: f}}
      - {uid: counter, from: b, by: [k], counter: {value: "v % 41", rate: 10ms, wrap: 41, max_step: 9}}
      - {uid: zscore, from: a, by: [k], zscore: {value: f, n: 12, limit: 0.5}}
      - {uid: sorted, from: b, sort: event_time}
      - {uid: throttle, from: a, by: [k], throttle: 20ms}
      - {uid: sample, from: b, by: [k], sample: {every: 3}}
      - {uid: absence, from: a, by: [k], absence: {after: 60ms, time: event}}
    sinks:
`

var steps = []string{
	"math", "tumbling", "hopping", "session", "counted", "condition", "best", "interval", "windowed", "latest", "fresh", "band", "alarm", "changed",
	"lag", "delta", "counter", "zscore", "sorted", "throttle", "sample", "absence",
}

// sinks gives each step a file; every other one gets what was not yet covered by a checkpoint.
func sinks() string {
	var b strings.Builder
	for i, s := range steps {
		fmt.Fprintf(&b, "      - {uid: to-%s, from: %s, commit: %s, file: {path: %s.jsonl}}\n", s, s, []string{"immediate", "checkpoint"}[i%2], s)
	}
	return b.String()
}

const startMs = 1767225600000

type message struct {
	topic   string
	payload []byte
}

// messages draws so many, and two at the end that end all event time before them.
func messages(random *rand.Rand, n int) (all []message) {
	keys := []string{"pump", "fan", "Lüfter", "7", "a b", "🌡"}
	for i := range n {
		f := random.NormFloat64() * math.Pow(10, float64(random.IntN(9)-3))
		all = append(all, message{
			topic: "t/" + []string{"a", "b"}[random.IntN(2)] + "/x",
			payload: fmt.Appendf(nil, `{"id":%d,"k":%q,"ts":%d,"v":%d,"f":%s,"big":%d}`, i, keys[random.IntN(len(keys))],
				startMs+int64(i)*2-random.Int64N(14), random.IntN(41), strconv.FormatFloat(f, 'g', -1, 64), random.Uint64()),
		})
	}
	for _, topic := range []string{"t/a/x", "t/b/x"} {
		all = append(all, message{topic, fmt.Appendf(nil, `{"id":%d,"k":"end","ts":%d,"v":0,"f":0,"big":0}`, n, int64(startMs+3_600_000))})
	}
	return all
}
