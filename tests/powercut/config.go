//go:build !arm && !386

package powercut

import (
	"fmt"
	"strings"
)

// streams is how many sinks the pipelines have: each must have come to the receiver by the end.
const streams = 12

// settings: both commit modes, all stores of checkpoints, state in memory and in Pebble, a sink that is behind, dead letters. The journal takes new segments
// again and again, and its outboxes as well.
const settings = `
gateway: powercut
state_dir: STATE
board_serial: powercut
security: {allow_private: true}
journal: {segment: 256KiB, max_bytes: 64MiB, compress: false, linger: 2ms}
brokers:
  rig: {url: "tcp://BROKER", client_id: weir-powercut}
sources:
  a:
    mqtt: {broker: rig, topic: "t/a/{device}", qos: QOS}
    decode: json
    fields: {id: int, k: string, ts: int, v: int, p: string}
    time: {field: ts, unit: ms, out_of_orderness: 100ms}
  b:
    mqtt: {broker: rig, topic: "t/b/{device}", qos: QOS}
    decode: json
    fields: {id: int, k: string, ts: int, v: int, p: string}
    time: {field: ts, unit: ms, out_of_orderness: 100ms}
pipelines:
  rows-log:
    start: earliest
    checkpoint: {interval: 150ms, store: log}
    steps:
      - {uid: all, from: a, select: [id, k, ts, v, p]}
    sinks:
      - {uid: rows-now-a, from: all, commit: immediate, http: {url: "URL/fast"}}
      - {uid: rows-later-a, from: all, http: {url: "URL/fast"}}
      - {uid: rows-slow-now-a, from: all, commit: immediate, http: {url: "URL/slow", batch: {records: 20}}}
      - {uid: rows-slow-later-a, from: all, http: {url: "URL/slow", batch: {records: 20}}}
  windows-bbolt:
    start: earliest
    parallelism: 2
    checkpoint: {interval: 200ms, store: bbolt}
    steps:
      - {uid: w, from: a, by: [k], window: {tumbling: 100ms}, aggregate: {n: count(), sum: sum(v)}}
    sinks:
      - {uid: win-now-a, from: w, commit: immediate, http: {url: "URL/fast"}}
      - {uid: win-later-a, from: w, http: {url: "URL/slow"}}
  windows-pebble:
    start: earliest
    state: {backend: pebble, memory: 4MiB}
    checkpoint: {interval: 250ms, store: pebble}
    steps:
      - {uid: w, from: b, by: [k], window: {tumbling: 100ms}, aggregate: {n: count(), sum: sum(v)}}
    sinks:
      - {uid: win-now-b, from: w, commit: immediate, http: {url: "URL/fast"}}
      - {uid: win-later-b, from: w, http: {url: "URL/fast"}}
  union-log:
    start: earliest
    state: {backend: pebble, memory: 4MiB}
    checkpoint: {interval: 180ms, store: log}
    steps:
      - {uid: u, from: [a, b]}
      - {uid: s, from: u, select: [id, k, ts, v, p]}
      - {uid: w, from: s, by: [k], window: {tumbling: 100ms}, aggregate: {n: count(), sum: sum(v)}}
    sinks:
      - {uid: rows-now, from: s, commit: immediate, http: {url: "URL/fast"}}
      - {uid: rows-slow, from: s, http: {url: "URL/slow", batch: {records: 20}}}
      - {uid: win-now, from: w, commit: immediate, http: {url: "URL/slow"}}
      - {uid: win-later, from: w, http: {url: "URL/fast"}}
`

// letters are the pipelines whose dead letters are looked at, with the parity of what they read; -1: all.
var letters = map[string]int{"rows-log": 0, "windows-bbolt": 0, "windows-pebble": 1, "union-log": -1}

// saved is the pipeline that savepoints are made of.
const saved = "windows-bbolt"

// fill puts the places of a world into settings.
func fill(state, broker, receiver string, qos int) string {
	return strings.NewReplacer("STATE", state, "BROKER", broker, "URL", "http://"+receiver, "QOS", fmt.Sprint(qos)).Replace(settings)
}
