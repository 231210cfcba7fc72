package crash

import (
	"encoding/json"
	"fmt"

	"github.com/weirstream/weir/tests/oracle"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

// message is what is published and what passes through.
type message struct {
	ID int    `json:"id"`
	K  string `json:"k"`
	TS int64  `json:"ts"`
	V  int    `json:"v"`
}

const (
	baseMs   = 1767225600000
	keys     = 50
	perMs    = 3 // messages per ms of event time
	windowMs = 1000
)

// messageOf is the n-th message of the run; every one is known without being stored.
func messageOf(n int) message {
	return message{ID: n, K: fmt.Sprintf("d%02d", n*7%keys), TS: baseMs + int64(n/perMs), V: n % 1000}
}

func topicOf(n int) string {
	if n%2 == 0 {
		return "t/a/" + messageOf(n).K
	}
	return "t/b/" + messageOf(n).K
}

// truth is what windows over the messages that `in` takes must hold.
func truth(n int, in func(int) bool) oracle.Windows {
	all := oracle.Windows{}
	for i := range n {
		if in(i) {
			m := messageOf(i)
			all.Add(m.K, m.TS, windowMs, m.V)
		}
	}
	return all
}

// allClosed: messages behind all others have closed every window.
func allClosed(oracle.Cell) bool { return true }

// verdict of one stream.
type verdict struct{ oracle.Verdict }

// judge reads everything that the receiver holds and compares it with the truth. flush is the first id of the messages that
// only close windows.
func judge(r upstream, flush int) (all []verdict, err error) {
	drawn := oracle.Windows{} // what the rows of the stream drawn-a add up to
	err = oracle.Each(r, func(stream uplink.Stream) error {
		v := verdict{oracle.Verdict{Stream: stream.Sink}}
		ids, cells := map[int]int{}, oracle.Windows{}
		err := r.Records(stream, func(_ uint64, l wire.Line) error {
			if l.Data == nil {
				v.Wrongf("gap at %d: %s", l.Seq, l.Reason)
				return nil
			}
			if v.Stream == "drawn-a" {
				addDrawn(drawn, l.Data, flush)
			}
			return v.take(l.Data, ids, cells)
		})
		if err != nil {
			return err
		}
		if v.Stream == "win-drawn-a" {
			v.Match(drawn, cells, allClosed)
		} else {
			v.compare(flush, ids, cells)
		}
		all = append(all, v)
		return nil
	})
	return all, err
}

func (v *verdict) take(data []byte, ids map[int]int, cells oracle.Windows) error {
	v.Got++
	if v.OfWindows() {
		return v.TakeWindow(data, cells)
	}
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		return err
	}
	ids[m.ID]++
	return nil
}

// checkValues compares a row with the message that was published.
func (v *verdict) checkValues(data []byte, flush int) {
	var m message
	if err := json.Unmarshal(data, &m); err != nil || m.ID < flush && m != messageOf(m.ID) {
		v.Wrongf("row %.200s is not what was published: %v", data, err)
	}
}

func (v *verdict) compare(flush int, ids map[int]int, cells oracle.Windows) {
	if v.OfWindows() {
		v.Match(truth(flush, v.In), cells, allClosed)
		return
	}
	v.Once(flush, ids, v.In)
}

// addDrawn adds a row whose value only the agent knew before it arrived.
func addDrawn(sums oracle.Windows, data []byte, flush int) {
	var m message
	if json.Unmarshal(data, &m) != nil || m.ID >= flush {
		return // take complains
	}
	sums.Add(m.K, m.TS, windowMs, m.V)
}
