//go:build !arm && !386

package powercut

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

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

// windowRow is a result of a window.
type windowRow struct {
	Start    int64  `json:"window_start"`
	K        string `json:"k"`
	N        int    `json:"n"`
	Sum      int    `json:"sum"`
	Revision int    `json:"revision"`
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

type cell struct {
	start int64
	k     string
}

// truth is what windows over the messages below n must hold.
func truth(n int, in func(int) bool) map[cell]windowRow {
	all := map[cell]windowRow{}
	for i := range n {
		if !in(i) || bad(i) {
			continue
		}
		m := messageOf(i)
		c := cell{m.TS / windowMs * windowMs, m.K}
		w := all[c]
		w.Start, w.K, w.N, w.Sum = c.start, c.k, w.N+1, w.Sum+m.V
		all[c] = w
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
type verdict struct {
	stream               string
	got, lost, duplicate int
	wrong                []string
}

func (v *verdict) ok() bool { return v.lost == 0 && v.duplicate == 0 && len(v.wrong) == 0 }

func (v *verdict) String() string {
	s := fmt.Sprintf("%s: got %d lost %d duplicate %d", v.stream, v.got, v.lost, v.duplicate)
	if len(v.wrong) > 0 {
		s += ": " + strings.Join(v.wrong[:min(len(v.wrong), 3)], "; ")
	}
	return s
}

// judge reads everything that a receiver holds.
func judge(r *receiver.Receiver, d demand) (verdicts []*verdict, err error) {
	names, err := r.Streams()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		stream, err := wire.ParseStream(name)
		if err != nil {
			return nil, err
		}
		v := &verdict{stream: stream.Sink}
		ids, cells := map[int]int{}, map[cell]windowRow{}
		err = r.Records(stream, func(_ uint64, l wire.Line) error {
			v.take(l, d.messages, ids, cells)
			return nil
		})
		if err != nil {
			return nil, err
		}
		v.compare(d, ids, cells)
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

func (v *verdict) windows() bool { return strings.HasPrefix(v.stream, "win") }

// in tells whether message i is of the stream's sources.
func (v *verdict) in(i int) bool {
	switch {
	case strings.HasSuffix(v.stream, "-a"):
		return i%2 == 0
	case strings.HasSuffix(v.stream, "-b"):
		return i%2 == 1
	}
	return true
}

func (v *verdict) take(l wire.Line, messages int, ids map[int]int, cells map[cell]windowRow) {
	v.got++
	if l.Data == nil {
		v.wrong = append(v.wrong, fmt.Sprintf("gap at %d: %s", l.Seq, l.Reason))
		return
	}
	if v.windows() {
		var w windowRow
		if err := json.Unmarshal(l.Data, &w); err != nil {
			v.wrong = append(v.wrong, err.Error())
			return
		}
		c := cell{w.Start, w.K}
		if _, twice := cells[c]; twice {
			v.duplicate++
		}
		cells[c] = w
		return
	}
	var m message
	if err := json.Unmarshal(l.Data, &m); err != nil || m.ID < messages && m != messageOf(m.ID) {
		v.wrong = append(v.wrong, fmt.Sprintf("row %.100s is not what was published (%v)", l.Data, err))
	}
	ids[m.ID]++
}

func (v *verdict) compare(d demand, ids map[int]int, cells map[cell]windowRow) {
	if v.windows() {
		v.compareCells(d, cells)
		return
	}
	for i := range d.messages {
		switch n := ids[i]; {
		case n == 0 && v.in(i) && !bad(i) && d.must(i):
			v.lost++
		case n > 1:
			v.duplicate += n - 1
		}
	}
}

// compareCells: a window that has closed has all its messages, since they come in order. It must have closed when the newest message that must be there is
// far enough behind it.
func (v *verdict) compareCells(d demand, cells map[cell]windowRow) {
	newest := int64(0)
	for i := range d.messages {
		if v.in(i) && !bad(i) && d.must(i) {
			newest = messageOf(i).TS
		}
	}
	want := truth(d.messages, v.in)
	for c, w := range want {
		got, there := cells[c]
		switch closed := d.all || c.start+windowMs+orderMs < newest; {
		case !there && closed:
			v.lost++
		case there && got != w:
			v.wrong = append(v.wrong, fmt.Sprintf("window %d %s: got %+v, want %+v", c.start, c.k, got, w))
		}
	}
	for c := range cells {
		if _, known := want[c]; !known && c.start < baseMs+3_600_000 {
			v.wrong = append(v.wrong, fmt.Sprintf("window %d %s is of no message", c.start, c.k))
		}
	}
}
