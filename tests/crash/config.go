package crash

import (
	"fmt"
	"strings"
)

// streams is how many sinks the config has.
const streams = 8

// configOf: pass-through, keyed windows and the union; both commit modes; both snapshot stores.
func configOf(dir, broker, receiver string, qos byte) string {
	return strings.NewReplacer("DIR", dir, "BROKER", broker, "URL", "http://"+receiver+"/weir", "QOS", fmt.Sprint(qos)).Replace(`
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
    checkpoint: {interval: 300ms, store: bbolt}
    steps:
      - {uid: w, from: a, by: [k], window: {tumbling: 1s}, aggregate: {n: count(), sum: sum(v)}}
    sinks:
      - {uid: win-now-a, from: w, commit: immediate, http: {url: "URL"}}
      - {uid: win-later-a, from: w, http: {url: "URL"}}
  union-log:
    start: earliest
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
`)
}
