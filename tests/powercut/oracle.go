//go:build !arm && !386

package powercut

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/weirstream/weir/tests/oracle"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/receiver"
	"github.com/weirstream/weir/uplink/wire"
)

// message is what is published and what passes through.
type message struct {
	ID int    `json:"id"`
	K  string `json:"k"`
	TS int64  `json:"ts"`
	V  int    `json:"v"`
	P  string `json:"p"` // makes it larger, so that segments fill
}

const (
	baseMs   = 1767225600000
	keys     = 7
	perMs    = 1
	windowMs = 100
	orderMs  = 100 // out_of_orderness
	badEvery = 41  // one message of so many cannot be decoded
)

// messageOf is the n-th message of a round; every one is known without being stored.
func messageOf(n int) message {
	return message{ID: n, K: fmt.Sprintf("d%d", n*3%keys), TS: baseMs + int64(n/perMs), V: n % 1000, P: padding(n)}
}

// padding of message n, which no compression makes smaller.
func padding(n int) string {
	b := make([]byte, n*37%500)
	random := rand.NewPCG(uint64(n), 3)
	for i := 0; i < len(b); i += 10 {
		for x, j := random.Uint64(), i; j < min(i+10, len(b)); x, j = x>>6, j+1 {
			b[j] = letterSet[x%64]
		}
	}
	return string(b)
}

const letterSet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

func bad(n int) bool { return n%badEvery == 7 }

// payload of a message. A bad one has its number, and is no JSON.
func payload(n int) []byte {
	if bad(n) {
		return fmt.Appendf(nil, `{"id":%d,"k":`, n)
	}
	b, _ := json.Marshal(messageOf(n)) // numbers and a string
	return b
}

// closing is the message behind all others, which closes every window.
func closing(n int) []byte {
	b, _ := json.Marshal(message{ID: n, K: "closing", TS: baseMs + 3_600_000})
	return b
}

func topicOf(n int) string {
	if n%2 == 0 {
		return "t/a/" + messageOf(n).K
	}
	return "t/b/" + messageOf(n).K
}

// truth is what windows over the messages below n must hold.
func truth(n int, in func(int) bool) oracle.Windows {
	all := oracle.Windows{}
	for i := range n {
		if in(i) && !bad(i) {
			m := messageOf(i)
			all.Add(m.K, m.TS, windowMs, m.V)
		}
	}
	return all
}

// demand is what must be at the receiver: each message below messages once that must says, and no other more than once.
type demand struct {
	messages int
	must     func(n int) bool
	all      bool // and everything has come: all windows are closed
}

// verdict of one stream.
type verdict struct{ oracle.Verdict }

// judge reads everything that a receiver holds.
func judge(r *receiver.Receiver, d demand) (verdicts []*verdict, err error) {
	err = oracle.Each(r, func(stream uplink.Stream) error {
		v := &verdict{oracle.Verdict{Stream: stream.Sink}}
		ids, cells := map[int]int{}, oracle.Windows{}
		err := r.Records(stream, func(_ uint64, l wire.Line) error {
			v.take(l, d.messages, ids, cells)
			return nil
		})
		if err != nil {
			return err
		}
		v.compare(d, ids, cells)
		verdicts = append(verdicts, v)
		return nil
	})
	return verdicts, err
}

func (v *verdict) take(l wire.Line, messages int, ids map[int]int, cells oracle.Windows) {
	v.Got++
	if l.Data == nil {
		v.Wrongf("gap at %d: %s", l.Seq, l.Reason)
		return
	}
	if v.OfWindows() {
		if err := v.TakeWindow(l.Data, cells); err != nil {
			v.Wrongf("%v", err)
		}
		return
	}
	var m message
	if err := json.Unmarshal(l.Data, &m); err != nil || m.ID < messages && m != messageOf(m.ID) {
		v.Wrongf("row %.100s is not what was published (%v)", l.Data, err)
	}
	ids[m.ID]++
}

func (v *verdict) compare(d demand, ids map[int]int, cells oracle.Windows) {
	due := func(i int) bool { return v.In(i) && !bad(i) && d.must(i) }
	if !v.OfWindows() {
		v.Once(d.messages, ids, due)
		return
	}
	// A window that has closed has all its messages, since they come in order. It must have closed when the newest message that must be there is far enough behind it: of each source that
	// the stream is made of, since the one that is behind holds its watermark.
	var newest [2]int64
	for i := range d.messages {
		if due(i) {
			newest[i%2] = messageOf(i).TS
		}
	}
	closed := max(newest[0], newest[1])
	if v.In(0) && v.In(1) {
		closed = min(newest[0], newest[1])
	}
	want := truth(d.messages, v.In)
	v.Match(want, cells, func(c oracle.Cell) bool { return d.all || c.Start+windowMs+orderMs < closed })
	for c := range cells {
		if _, known := want[c]; !known && c.Start < baseMs+3_600_000 {
			v.Wrongf("window %d %s is of no message", c.Start, c.K)
		}
	}
}
