package device

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

// held is what the oracle asks of the receiver.
type held interface {
	Streams() ([]string, error)
	RecordsAfter(s uplink.Stream, generation, seq uint64, f func(generation uint64, l wire.Line) error) error
}

// windowRow is a row of the sink of windows.
type windowRow struct {
	Start int64  `json:"window_start"`
	K     string `json:"k"`
	N     int    `json:"n"`
	Sum   int    `json:"sum"`
}

type cell struct {
	start int64
	k     string
}

// oracle follows what the receiver holds of each sink, and compares it with what was published.
type oracle struct {
	receiver held
	sinks    map[string]*sink
	arrived  int // records of all sinks
}

// sink is one that the config has.
type sink struct {
	takes           func(n int) bool // which messages pass through it
	stream          uplink.Stream
	generation, seq uint64
	ids             map[int]int
	cells           map[cell][]windowRow // of a sink of windows
	wrong           []string
}

// newOracle asks for these sinks of the config; none: all that whole has.
func newOracle(r held, sinks ...string) *oracle {
	all := func(int) bool { return true }
	o := &oracle{receiver: r, sinks: map[string]*sink{
		"now-a":     {takes: even},
		"later-b":   {takes: func(n int) bool { return !even(n) }},
		"union-now": {takes: all},
		"win-later": {takes: all, cells: map[cell][]windowRow{}},
	}}
	for name, s := range o.sinks {
		if s.ids = map[int]int{}; len(sinks) > 0 && !slices.Contains(sinks, name) {
			delete(o.sinks, name)
		}
	}
	return o
}

// follow takes in what has come since it was last called.
func (o *oracle) follow() error {
	names, err := o.receiver.Streams()
	if err != nil {
		return err
	}
	for _, name := range names {
		stream, err := wire.ParseStream(name)
		if err != nil {
			return err
		}
		s := o.sinks[stream.Sink]
		switch {
		case s == nil && stream.Sink == "$dead":
			continue
		case s == nil:
			return fmt.Errorf("stream %s is of no sink of the config", name)
		case s.stream != (uplink.Stream{}) && s.stream != stream:
			s.complain("arrived under a second name, %s and %s", s.stream, stream)
		}
		s.stream = stream
		err = o.receiver.RecordsAfter(stream, s.generation, s.seq, func(generation uint64, l wire.Line) error {
			o.arrived++
			return s.take(generation, l)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *sink) complain(format string, args ...any) {
	if len(s.wrong) < 5 {
		s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
	}
}

func (s *sink) take(generation uint64, l wire.Line) error {
	if l.Seq != s.seq+1 || s.generation != 0 && generation != s.generation {
		s.complain("%d of generation %d follows %d of %d", l.Seq, generation, s.seq, s.generation)
	}
	s.generation, s.seq = generation, l.Last
	if l.Gap {
		s.complain("gap %d to %d: %s", l.Seq, l.Last, l.Reason)
		return nil
	}
	if s.cells != nil {
		var w windowRow
		if err := json.Unmarshal(l.Data, &w); err != nil {
			return err
		}
		c := cell{w.Start, w.K}
		s.cells[c] = append(s.cells[c], w)
		return nil
	}
	var m message
	if err := json.Unmarshal(l.Data, &m); err != nil {
		return err
	}
	if s.ids[m.ID]++; m.K != "flush" && m != messageOf(m.ID) {
		s.complain("%s is not what was published", l.Data)
	}
	return nil
}

// verdict of all sinks.
type verdict struct {
	arrived, lost, duplicate int
	wrong                    []string
	missing                  []string // the first few
	lostMessages             int      // of lost, those that are no windows
}

func (v *verdict) exact() bool { return v.lost == 0 && v.duplicate == 0 && len(v.wrong) == 0 }

func (v *verdict) String() string {
	s := fmt.Sprintf("%d records arrived: lost %d, duplicate %d, wrong %d", v.arrived, v.lost, v.duplicate, len(v.wrong))
	if v.lost > 0 {
		s += " (lost: " + strings.Join(v.missing, ", ") + ")"
	}
	return strings.Join(append([]string{s}, v.wrong[:min(len(v.wrong), 10)]...), "\n  ")
}

// judge compares with n messages and the windows that they make.
func (o *oracle) judge(n int) *verdict {
	v := &verdict{arrived: o.arrived}
	for name, s := range o.sinks {
		if s.cells != nil {
			v.compareWindows(name, s, n)
		} else {
			v.compareMessages(name, s, n)
		}
		for _, w := range s.wrong {
			v.wrong = append(v.wrong, name+": "+w)
		}
	}
	return v
}

// judgeMessages compares with n messages, not with the windows that they make: those close later.
func (o *oracle) judgeMessages(n int) *verdict {
	v := &verdict{arrived: o.arrived}
	for name, s := range o.sinks {
		if s.cells == nil {
			v.compareMessages(name, s, n)
		}
		for _, w := range s.wrong {
			v.wrong = append(v.wrong, name+": "+w)
		}
	}
	return v
}

// over tells that the last messages, n and n+1, have passed through every sink of messages: each sink keeps the order of each source, so what has not come before them
// never comes. Windows close a while later.
func (o *oracle) over(n int) bool {
	for _, s := range o.sinks {
		for i := n; i < n+2; i++ {
			if s.cells == nil && s.takes(i) && s.ids[i] == 0 {
				return false
			}
		}
	}
	return true
}

func (v *verdict) compareMessages(name string, s *sink, n int) {
	for i := range n {
		if s.takes(i) && s.ids[i] == 0 {
			v.lose("%s %d", name, i)
			v.lostMessages++
		}
	}
	for _, times := range s.ids {
		v.duplicate += times - 1
	}
}

func (v *verdict) compareWindows(name string, s *sink, n int) {
	truth := map[cell]windowRow{}
	for i := range n {
		m := messageOf(i)
		c := cell{m.TS / windowMs * windowMs, m.K}
		w := truth[c]
		truth[c] = windowRow{c.start, c.k, w.N + 1, w.Sum + m.V}
	}
	for c, rows := range s.cells {
		want, known := truth[c]
		v.duplicate += len(rows) - 1
		if rows[0] != want && c.k != "flush" {
			v.wrong = append(v.wrong, fmt.Sprintf("%s: window %+v, want %+v (known %v)", name, rows[0], want, known))
		}
	}
	for c := range truth {
		if s.cells[c] == nil {
			v.lose("%s %d %s", name, c.start, c.k)
		}
	}
}

func (v *verdict) lose(format string, args ...any) {
	if v.lost++; len(v.missing) < 10 {
		v.missing = append(v.missing, fmt.Sprintf(format, args...))
	}
}
