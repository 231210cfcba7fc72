package fleet

import (
	"encoding/json"
	"fmt"

	"github.com/weirstream/weir/tests/oracle"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/receiver"
	"github.com/weirstream/weir/uplink/wire"
)

// message is what a device sends.
type message struct {
	ID int    `json:"id"`
	K  string `json:"k"`
	TS int64  `json:"ts"`
	V  int    `json:"v"`
}

const (
	baseMs   = 1767225600000
	keys     = 5
	apartMs  = 100 // of event time, between two messages
	windowMs = 10_000
	flushKey = "flush"
)

// messageOf is the n-th message to every gateway; each is known without being stored.
func messageOf(n int) message {
	return message{ID: n, K: fmt.Sprintf("d%d", n%keys), TS: baseMs + int64(n)*apartMs, V: n % 1000}
}

// flushOf closes every window; n is the first number that no message has.
func flushOf(n int) message {
	return message{ID: n, K: flushKey, TS: baseMs + int64(n)*apartMs + 3_600_000}
}

// row is one of the chain: id, and the one before it of its key.
type row struct {
	ID     int
	K      string
	Before *int
}

// judge compares what the receiver holds of the gateways with the n messages that each was sent, and the flush.
func judge(r *receiver.Receiver, gateways []*gateway, n int) (all []oracle.Verdict, err error) {
	want, names := oracle.Windows{}, map[string]bool{}
	for i := range n {
		m := messageOf(i)
		want.Add(m.K, m.TS, windowMs, m.V)
	}
	for _, g := range gateways {
		names[g.name] = true
	}
	err = oracle.Each(r, func(s uplink.Stream) error {
		if !names[s.Gateway] || s.Sink != "rows" && s.Sink != "win" {
			return nil
		}
		v, came, windows := oracle.Verdict{Stream: s.Sink}, map[int]int{}, oracle.Windows{}
		err := r.Records(s, func(_ uint64, l wire.Line) error {
			switch v.Got++; {
			case l.Data == nil:
				v.Wrongf("gap at %d: %s", l.Seq, l.Reason)
				return nil
			case s.Sink == "win":
				return v.TakeWindow(l.Data, windows)
			}
			return takeRow(&v, l.Data, came, n)
		})
		if s.Sink == "win" {
			v.Match(want, windows, func(oracle.Cell) bool { return true })
		} else {
			v.Once(n+1, came, func(int) bool { return true })
		}
		v.Stream = s.String()
		all = append(all, v)
		return err
	})
	for len(all) < 2*len(gateways) { // nothing has come of it
		all = append(all, oracle.Verdict{Stream: "of a gateway that has sent nothing", Lost: n})
	}
	return all, err
}

// takeRow takes a row of the chain: what it says of the one before was in the gateway's state, over every upgrade and every way back.
func takeRow(v *oracle.Verdict, data []byte, came map[int]int, n int) error {
	var r row
	if err := json.Unmarshal(data, &r); err != nil {
		return err
	}
	came[r.ID]++
	m := messageOf(r.ID)
	if r.ID == n {
		m = flushOf(n)
	}
	before := -1
	if r.Before != nil {
		before = *r.Before
	}
	wanted := r.ID - keys
	if wanted < 0 || r.ID == n {
		wanted = -1
	}
	if r.K != m.K || before != wanted || r.ID > n {
		v.Wrongf("row %s, want k %s, before %d", data, m.K, wanted)
	}
	return nil
}
