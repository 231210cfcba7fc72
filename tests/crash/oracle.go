package crash

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/weirstream/weir/uplink/wire"
)

// message is what is published and what passes through.
type message struct {
	ID int    `json:"id"`
	K  string `json:"k"`
	TS int64  `json:"ts"`
	V  int    `json:"v"`
}

// windowRow is a result of a windowed sink.
type windowRow struct {
	Start    int64  `json:"window_start"`
	K        string `json:"k"`
	N        int    `json:"n"`
	Sum      int    `json:"sum"`
	Revision int    `json:"revision"`
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

type cell struct {
	start int64
	k     string
}

// truth is what windows over the messages that `in` takes must hold.
func truth(n int, in func(int) bool) map[cell]windowRow {
	all := map[cell]windowRow{}
	for i := range n {
		if !in(i) {
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

// verdict of one stream.
type verdict struct {
	stream               string
	got, lost, duplicate int
	wrong                []string
}

func (v verdict) ok() bool { return v.lost == 0 && v.duplicate == 0 && len(v.wrong) == 0 }

func (v verdict) String() string {
	s := fmt.Sprintf("%-28s got %d lost %d duplicate %d", v.stream, v.got, v.lost, v.duplicate)
	if len(v.wrong) > 0 {
		s += "\n  " + strings.Join(v.wrong[:min(len(v.wrong), 5)], "\n  ")
	}
	return s
}

// judge reads everything that the receiver holds and compares it with the truth. flush is the first id of the messages that
// only close windows.
func judge(r upstream, flush int) ([]verdict, error) {
	names, err := r.Streams()
	if err != nil {
		return nil, err
	}
	sort.Strings(names)
	var all []verdict
	drawn := map[cell]windowRow{} // what the rows of the stream drawn-a add up to
	for _, name := range names {
		stream, err := wire.ParseStream(name)
		if err != nil {
			return nil, err
		}
		v := verdict{stream: stream.Sink}
		ids, cells := map[int]int{}, map[cell]windowRow{}
		err = r.Records(stream, func(_ uint64, l wire.Line) error {
			if l.Data == nil {
				v.wrong = append(v.wrong, fmt.Sprintf("gap at %d: %s", l.Seq, l.Reason))
				return nil
			}
			if v.stream == "drawn-a" {
				addDrawn(drawn, l.Data, flush)
			}
			return v.take(l.Data, ids, cells)
		})
		if err != nil {
			return nil, err
		}
		if v.stream == "win-drawn-a" {
			v.compareCells(drawn, cells)
		} else {
			v.compare(flush, ids, cells)
		}
		all = append(all, v)
	}
	return all, nil
}

func (v *verdict) windows() bool { return strings.HasPrefix(v.stream, "win") }

func (v *verdict) take(data []byte, ids map[int]int, cells map[cell]windowRow) error {
	v.got++
	if !v.windows() {
		var m message
		if err := json.Unmarshal(data, &m); err != nil {
			return err
		}
		ids[m.ID]++
		return nil
	}
	var w windowRow
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	c := cell{w.Start, w.K}
	if _, twice := cells[c]; twice {
		v.duplicate++
	}
	cells[c] = w
	return nil
}

// checkValues compares a row with the message that was published.
func (v *verdict) checkValues(data []byte, flush int) {
	var m message
	if err := json.Unmarshal(data, &m); err != nil || m.ID < flush && m != messageOf(m.ID) {
		v.wrong = append(v.wrong, fmt.Sprintf("row %.200s is not what was published: %v", data, err))
	}
}

func (v *verdict) compare(flush int, ids map[int]int, cells map[cell]windowRow) {
	in := func(i int) bool { return true }
	if strings.HasSuffix(v.stream, "-a") {
		in = func(i int) bool { return i%2 == 0 }
	}
	if !v.windows() {
		for i := range flush {
			switch n := ids[i]; {
			case in(i) && n == 0:
				v.lost++
			case n > 1:
				v.duplicate += n - 1
			}
		}
		return
	}
	v.compareCells(truth(flush, in), cells)
}

// addDrawn adds a row whose value only the agent knew before it arrived.
func addDrawn(sums map[cell]windowRow, data []byte, flush int) {
	var m message
	if json.Unmarshal(data, &m) != nil || m.ID >= flush {
		return // take complains
	}
	c := cell{m.TS / windowMs * windowMs, m.K}
	w := sums[c]
	w.Start, w.K, w.N, w.Sum = c.start, c.k, w.N+1, w.Sum+m.V
	sums[c] = w
}

func (v *verdict) compareCells(truth, cells map[cell]windowRow) {
	for c, want := range truth {
		got, ok := cells[c]
		switch {
		case !ok:
			v.lost++
		case got != want:
			v.wrong = append(v.wrong, fmt.Sprintf("window %d %s: got %+v, want %+v", c.start, c.k, got, want))
		}
	}
}
