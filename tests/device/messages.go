package device

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/tests/rig"
)

// message is what is published; every one is known without being stored.
type message struct {
	ID int    `json:"id"`
	K  string `json:"k"`
	TS int64  `json:"ts"`
	V  int    `json:"v"`
}

const (
	keys     = 20
	baseMs   = 1767225600000
	eachMs   = 10 // of event time between messages
	windowMs = 1000
)

func messageOf(n int) message {
	return message{ID: n, K: fmt.Sprintf("d%02d", n*7%keys), TS: baseMs + int64(n)*eachMs, V: n % 1000}
}

// even messages are published at QoS 1 and read by the source a, odd ones at QoS 2 by b.
func even(n int) bool { return n%2 == 0 }

// common to all configs of weir on the device. DIR is state_dir.
const common = `gateway: device
state_dir: DIR
security: {allow_private: true, allow_plaintext: true}
journal: {max_bytes: 64MiB, reserve: 8MiB, segment: 256KiB}
brokers:
  host: {url: "tcp://BROKER", client_id: weir-device}
sources:
  a:
    mqtt: {broker: host, topic: "t/a/{device}", qos: 1}
    decode: json
    fields: {id: int, k: string, ts: int, v: int}
    time: {field: ts, unit: ms, out_of_orderness: 1s}
  b:
    mqtt: {broker: host, topic: "t/b/{device}", qos: 2}
    decode: json
    fields: {id: int, k: string, ts: int, v: int}
    time: {field: ts, unit: ms, out_of_orderness: 1s}
`

// whole has both stores of checkpoints, both ways to commit, a union and windows.
const whole = `pipelines:
  pass:
    start: earliest
    checkpoint: {interval: 500ms, store: log}
    sinks:
      - {uid: now-a, from: a, commit: immediate, http: {url: "http://RECEIVER/weir"}}
      - {uid: later-b, from: b, http: {url: "http://RECEIVER/weir"}}
  windows:
    start: earliest
    checkpoint: {interval: 700ms, store: bbolt}
    steps:
      - {uid: u, from: [a, b]}
      - {uid: w, from: u, by: [k], window: {tumbling: 1s}, aggregate: {n: count(), sum: sum(v)}}
    sinks:
      - {uid: union-now, from: u, commit: immediate, http: {url: "http://RECEIVER/weir"}}
      - {uid: win-later, from: w, http: {url: "http://RECEIVER/weir"}}
`

// plain has long times between its checkpoints, each of which flushes the disk as well: what a fault leaves unflushed is there to be lost.
const plain = `pipelines:
  pass:
    start: earliest
    checkpoint: {interval: 20s, store: log}
    sinks:
      - {uid: now-a, from: a, commit: immediate, http: {url: "http://RECEIVER/weir"}}
      - {uid: later-b, from: b, http: {url: "http://RECEIVER/weir"}}
`

// Where the machine finds broker and receiver.
const brokerPort, receiverPort = "1883", "8080"

func configFor(stateDir, pipelines string) string {
	return strings.NewReplacer("DIR", stateDir, "BROKER", guestIP+":"+brokerPort, "RECEIVER", guestIP+":"+receiverPort).Replace(common + pipelines)
}

// feed publishes until it is told to stop.
type feed struct {
	one, two  *rig.Publisher // of QoS 1 and 2
	published atomic.Int64
	limit     atomic.Int64 // of published: no more until it is raised
	stop      context.CancelFunc
	ended     chan error
}

// queuedMost messages gather at the broker while the machine is off: enough to meet all of a start, and worked off before the next cut.
const queuedMost = 300

// pause lets so many more through until resume.
func (f *feed) pause()  { f.limit.Store(f.published.Load() + queuedMost) }
func (f *feed) resume() { f.limit.Store(math.MaxInt64) }

// feedPerSecond is well below what an emulated machine takes.
const feedPerSecond = 40

func startFeed(ctx context.Context, broker string) *feed {
	ctx, stop := context.WithCancel(ctx)
	f := &feed{stop: stop, ended: make(chan error, 1)}
	f.resume()
	f.one = rig.NewPublisher(rig.PublisherConfig{Addr: broker, ClientID: "device-feed-1", QoS: 1})
	f.two = rig.NewPublisher(rig.PublisherConfig{Addr: broker, ClientID: "device-feed-2", QoS: 2})
	go func() { f.ended <- f.run(ctx) }() // finish and close wait
	return f
}

func (f *feed) run(ctx context.Context) error {
	tick := time.NewTicker(time.Second / feedPerSecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if int64(n) >= f.limit.Load() {
			n--
			continue
		}
		if err := f.publish(ctx, n, messageOf(n)); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		f.published.Store(int64(n + 1))
	}
}

func (f *feed) publish(ctx context.Context, n int, m message) error {
	payload, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if even(n) {
		return f.one.Publish(ctx, "t/a/"+m.K, false, payload)
	}
	return f.two.Publish(ctx, "t/b/"+m.K, false, payload)
}

// finish publishes nothing more but the two messages that close every window, waits until the broker has it all, and gives the number of messages before those
// two. A message that the stop kept from leaving is none.
func (f *feed) finish(ctx context.Context) (int, error) {
	f.stop()
	if err := <-f.ended; err != nil {
		return 0, err
	}
	f.ended <- nil // for close
	n := int(f.published.Load())
	for i := range 2 {
		if err := f.publish(ctx, n+i, message{ID: n + i, K: "flush", TS: baseMs + 1e9}); err != nil {
			return 0, err
		}
	}
	return n, errors.Join(f.one.Flush(ctx), f.two.Flush(ctx))
}

func (f *feed) close() {
	f.stop()
	<-f.ended
	f.one.Close()
	f.two.Close()
}
