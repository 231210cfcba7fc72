package engine_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

// auctionHouse is a recording in the manner of Nexmark: persons, auctions and bids 1 : 3 : 46, one event a millisecond, up to 4 s out of order in
// their event times, half of the bids on the hot auctions.
func auctionHouse(events int) []byte {
	const start, persons, auctions, hot, first = 1767225600000, 1, 3, 100, 1000
	random := rand.New(rand.NewPCG(11, 12))
	var out, payload []byte
	channels := []string{"apple", "google", "facebook", "baidu"}
	for n := range events {
		ts := start + int64(n) + random.Int64N(4000)
		epoch, offset := n/50, n%50
		auctionLast := first + epoch*auctions + min(offset, auctions-1)
		kind := "bid"
		switch {
		case offset < persons:
			kind = "person"
			payload = fmt.Appendf(payload[:0], `{"id":%d,"name":"person %d","city":"Kent","state":"%s","ts":%d}`, first+epoch, epoch, []string{"OR", "ID", "CA", "WA"}[epoch%4], ts)
		case offset < persons+auctions:
			kind = "auction"
			seller := first + max(0, epoch-random.IntN(100))
			payload = fmt.Appendf(payload[:0], `{"id":%d,"item":"item %d","initial":%d,"reserve":%d,"seller":%d,"category":%d,"ts":%d,"expires":%d}`,
				auctionLast, auctionLast, 100, 1000, seller, 10+auctionLast%5, ts, ts+10000)
		default:
			auction := auctionLast/hot*hot - random.IntN(2)*hot
			if auction < first || random.IntN(2) == 0 {
				auction = max(first, auctionLast-random.IntN(300))
			}
			bidder := first + max(0, epoch-random.IntN(1000))
			payload = fmt.Appendf(payload[:0], `{"auction":%d,"bidder":%d,"price":%d,"channel":"%s","url":"https://www.nexmark.test/item.htm?query=1","ts":%d}`,
				auction, bidder, 100+random.IntN(10_000_000), channels[random.IntN(4)], ts)
		}
		out = fmt.Appendf(out, "{\"n\":%d,\"at_ms\":%d,\"topic\":\"nexmark/%s\",\"qos\":1,\"payload\":%q}\n", n, start+4000+int64(n), kind, payload)
	}
	return out
}

const nexmarkHead = `
gateway: bench
state_dir: /nowhere
brokers: {rig: {url: "tcp://127.0.0.1:1"}}
sources:
  person:
    mqtt: {broker: rig, topic: nexmark/person, qos: 1}
    fields: {id: int, name: string, city: string, state: string, ts: int}
    time: {field: ts, unit: ms, out_of_orderness: 4s}
  auction:
    mqtt: {broker: rig, topic: nexmark/auction, qos: 1}
    fields: {id: int, item: string, initial: int, reserve: int, seller: int, category: int, ts: int, expires: int}
    time: {field: ts, unit: ms, out_of_orderness: 4s}
  bid:
    mqtt: {broker: rig, topic: nexmark/bid, qos: 1}
    fields: {auction: int, bidder: int, price: int, channel: string, url: string, ts: int}
    time: {field: ts, unit: ms, out_of_orderness: 4s}
pipelines:
  p:
    steps:
`

// nexmark are the queries; the last step of each is out.
var nexmark = []struct{ name, steps string }{
	{"q0", `- {uid: out, from: bid, select: [auction, bidder, price, channel, url, ts]}`},
	{"q1", `- {uid: out, from: bid, select: {auction: auction, bidder: bidder, euro_thousandths: price * 908, ts: ts}}`},
	{"q2", `- {uid: chosen, from: bid, filter: "auction % 123 == 0"}
      - {uid: out, from: chosen, select: [auction, price, ts]}`},
	{"q5", `- {uid: counted, from: bid, by: [auction], window: {hopping: 10s, slide: 2s}, aggregate: {n: count()}}
      - {uid: counts, from: counted, select: {start: window_start, end: window_end, auction: auction, n: n}}
      - {uid: hottest, from: counts, by: [start, end], window: {tumbling: 2s}, top: {n: 1, order: n desc, ties: true}}
      - {uid: out, from: hottest, select: [start, end, auction, n]}`},
	{"q7", `- {uid: highest, from: bid, window: {tumbling: 10s}, top: {n: 1, order: price desc, ties: true}}
      - {uid: out, from: highest, select: {start: window_start, auction: auction, bidder: bidder, price: price, ts: ts}}`},
	{"q8", `- {uid: pairs, from: [person, auction], join: {on: {id: seller}, window: {tumbling: 10s}, select: {id: left.id, name: left.name, start: window_start}}}
      - {uid: out, from: pairs, ttl: 1m, dedup: {key: [id, start]}}`},
	{"q11", `- {uid: visits, from: bid, by: [bidder], window: {session: 10s, touching: split}, aggregate: {bids: count()}}
      - {uid: out, from: visits, select: {bidder: bidder, bids: bids, start: window_start, end: window_end}}`},
}

// byHand are loops that somebody would write for the one question. That of q0 is the yardstick of the others too: what a query takes is told as a
// multiple of it, which compares with other days and machines; records per CPU second do not.
var byHand = map[string]func(recording []byte, out io.Writer) uint64{"q0": handQ0, "q1": handQ1, "q5": handQ5}

func TestNexmark(t *testing.T) {
	needBench(t)
	const events, repetitions = 300_000, 7
	recording := auctionHouse(events)
	for _, q := range nexmark {
		text := nexmarkHead + "      " + q.steps + "\n    sinks:\n      - {uid: results, from: out, file: {path: results.jsonl}}\n"
		loop := byHand[q.name]
		if loop != nil {
			sameLines(t, q.name, func(to io.Writer) uint64 { return run(t, text, recording, to) }, func(to io.Writer) uint64 { return loop(recording, to) })
		}
		var rate, yards, ratio []float64
		for range repetitions {
			spent := cpuOf(func() { run(t, text, recording, io.Discard) })
			yard := cpuOf(func() { handQ0(recording, io.Discard) })
			rate, yards = append(rate, events/spent.Seconds()), append(yards, spent.Seconds()/yard.Seconds())
			if loop == nil || q.name == "q0" {
				continue
			}
			hand := cpuOf(func() { loop(recording, io.Discard) })
			ratio = append(ratio, spent.Seconds()/hand.Seconds())
		}
		figure(t, q.name, "records/CPU s", "-", rate...)
		figure(t, q.name+" / loop by hand of q0", "x", "-", yards...)
		if ratio != nil {
			figure(t, q.name+" / loop by hand", "x", "-", ratio...)
		}
	}
}

// sameLines compares the results of two, before anything is measured.
func sameLines(t *testing.T, name string, ours, hand func(io.Writer) uint64) {
	t.Helper()
	var a, b lines
	n, m := ours(&a), hand(&b)
	if n != m || a != b {
		t.Fatalf("%s: %d results, the loop by hand has %d; or they differ: %x, %x", name, n, m, a.sum, b.sum)
	}
}

// lines sums what was written whatever the order of its lines.
type lines struct {
	count int
	sum   uint64
}

func (l *lines) Write(p []byte) (int, error) {
	l.count += bytes.Count(p, []byte{'\n'})
	for _, b := range p {
		l.sum += uint64(b) * uint64(b)
	}
	return len(p), nil
}
