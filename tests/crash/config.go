package crash

import (
	"fmt"
	"strings"
)

// fill puts the places of a run into a config, and further lines into its section brokers.
func fill(brokers, config, dir, broker, receiver string, qos byte) string {
	return strings.NewReplacer("DIR", dir, "BROKER", broker, "URL", "http://"+receiver+"/weir", "QOS", fmt.Sprint(qos)).Replace(strings.Replace(sources, "sources:\n", brokers+"sources:\n", 1) + config)
}

// sources are common to all configs.
const sources = `
gateway: crash
state_dir: DIR/state
security: {allow_private: true, file_root: DIR/files}
brokers:
  rig: {url: "tcp://BROKER", client_id: weir-crash}
sources:
  a:
    mqtt: {broker: rig, topic: "t/a/{device}", qos: QOS}
    decode: json
    fields: {id: int, k: string, ts: int, v: int}
    time: {field: ts, unit: ms, out_of_orderness: 1s}
  b:
    mqtt: {broker: rig, topic: "t/b/{device}", qos: QOS}
    decode: json
    fields: {id: int, k: string, ts: int, v: int}
    time: {field: ts, unit: ms, out_of_orderness: 1s}
`

// tortureStreams is how many sinks torture has.
const tortureStreams = 8

// torture: pass-through, keyed windows and the union; both commit modes; both snapshot stores.
const torture = `
pipelines:
  pass-log:
    start: earliest
    checkpoint: {interval: 500ms, store: log}
    steps:
      - {uid: all, from: a, select: [id, k, ts, v]}
    sinks:
      - {uid: now-a, from: all, commit: immediate, http: {url: "URL"}}
      - {uid: later-a, from: all, http: {url: "URL"}}
  windows-bbolt:
    start: earliest
    parallelism: 2
    checkpoint: {interval: 300ms, store: bbolt}
    steps:
      - {uid: w, from: a, by: [k], window: {tumbling: 1s}, aggregate: {n: count(), sum: sum(v)}}
    sinks:
      - {uid: win-now-a, from: w, commit: immediate, http: {url: "URL"}}
      - {uid: win-later-a, from: w, http: {url: "URL"}}
  union-log:
    start: earliest
    parallelism: 3
    checkpoint: {interval: 400ms, store: log}
    steps:
      - {uid: u, from: [a, b]}
      - {uid: s, from: u, select: [id, k, ts, v]}
      - {uid: w, from: s, by: [k], window: {tumbling: 1s}, aggregate: {n: count(), sum: sum(v)}}
    sinks:
      - {uid: union-now, from: s, commit: immediate, http: {url: "URL"}}
      - {uid: union-later, from: s, http: {url: "URL"}}
      - {uid: win-union-now, from: w, commit: immediate, http: {url: "URL"}}
      - {uid: win-union-later, from: w, http: {url: "URL"}}
`

// busyJournal is in a sync more often than not, and takes new segments again and again.
const busyJournal = `
journal: {segment: 256KiB, compress: false, linger: 2ms}
`

// passing: one pass-through, for faults on the way to the journal. The long linger leaves time between an append and its commit.
const passing = `
journal: {linger: 40ms}
pipelines:
  pass:
    start: earliest
    checkpoint: {interval: 500ms}
    sinks:
      - {uid: pass-a, from: a, http: {url: "URL"}}
`

// trimming: a journal in small segments, so that it is trimmed again and again.
const trimming = `
journal: {segment: 256KiB, compress: false}
pipelines:
  pass:
    start: earliest
    checkpoint: {interval: 250ms, store: log, retained: 3}
    sinks:
      - {uid: pass-a, from: a, http: {url: "URL"}}
`

// pruning: trimming with few checkpoints, so that none of those before a kill is retained at the next.
const pruning = `
journal: {segment: 256KiB, compress: false}
pipelines:
  pass:
    start: earliest
    checkpoint: {interval: 200ms, store: log, retained: 2}
    sinks:
      - {uid: pass-a, from: a, http: {url: "URL"}}
`

// telling: what is read leaves at once, and again with the checkpoint.
const telling = `
pipelines:
  pass:
    start: earliest
    checkpoint: {interval: 2s}
    sinks:
      - {uid: now-a, from: a, commit: immediate, http: {url: "URL"}}
      - {uid: later-a, from: a, http: {url: "URL"}}
`

// drawing: a step that is not deterministic. Rows and their sums leave by different sinks with the same checkpoints.
const drawing = `
pipelines:
  draw:
    start: earliest
    checkpoint: {interval: 200ms}
    steps:
      - {uid: s, from: a, select: {id: id, k: k, ts: ts, v: random(id)}}
      - {uid: w, from: s, by: [k], window: {tumbling: 1s}, aggregate: {n: count(), sum: sum(v)}}
    sinks:
      - {uid: drawn-a, from: s, http: {url: "URL"}}
      - {uid: win-drawn-a, from: w, http: {url: "URL"}}
`

// merging: the union with results that leave at once.
const merging = `
pipelines:
  union:
    start: earliest
    checkpoint: {interval: 400ms}
    steps:
      - {uid: u, from: [a, b]}
    sinks:
      - {uid: union, from: u, commit: immediate, http: {url: "URL"}}
`

// windowing: keyed windows over both stores.
const windowing = `
pipelines:
  windows-log:
    start: earliest
    checkpoint: {interval: 100ms, store: log}
    steps:
      - {uid: w, from: a, by: [k], window: {tumbling: 1s}, aggregate: {n: count(), sum: sum(v)}}
    sinks:
      - {uid: win-log-a, from: w, http: {url: "URL"}}
  windows-bbolt:
    start: earliest
    checkpoint: {interval: 100ms, store: bbolt}
    steps:
      - {uid: w, from: a, by: [k], window: {tumbling: 1s}, aggregate: {n: count(), sum: sum(v)}}
    sinks:
      - {uid: win-bbolt-a, from: w, commit: immediate, http: {url: "URL"}}
`
