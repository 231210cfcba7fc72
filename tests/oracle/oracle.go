// Package oracle counts what a receiver holds of the streams of an agent against what must be there: what is lost, what came twice, what is wrong. The runs that
// kill agents (tests/crash, tests/powercut) know every message that they publish, and hence every result, without storing one.
package oracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

// Window is a result of a window that counts and sums.
type Window struct {
	Start    int64  `json:"window_start"`
	K        string `json:"k"`
	N        int    `json:"n"`
	Sum      int    `json:"sum"`
	Revision int    `json:"revision"`
}

// Cell is whose window it is.
type Cell struct {
	Start int64
	K     string
}

// Windows are the results of all windows, or what they must be.
type Windows map[Cell]Window

// Add counts a message of key k and value v at a time into its tumbling window.
func (w Windows) Add(k string, atMs, windowMs int64, v int) {
	c := Cell{atMs / windowMs * windowMs, k}
	sum := w[c]
	sum.Start, sum.K, sum.N, sum.Sum = c.Start, k, sum.N+1, sum.Sum+v
	w[c] = sum
}

// Verdict of one stream.
type Verdict struct {
	Stream               string
	Got, Lost, Duplicate int
	Wrong                []string
}

// OK: exactly once, and right.
func (v Verdict) OK() bool { return v.Lost == 0 && v.Duplicate == 0 && len(v.Wrong) == 0 }

func (v Verdict) String() string {
	s := fmt.Sprintf("%-28s got %d lost %d duplicate %d", v.Stream, v.Got, v.Lost, v.Duplicate)
	if len(v.Wrong) > 0 {
		s += "\n  " + strings.Join(v.Wrong[:min(len(v.Wrong), 5)], "\n  ")
	}
	return s
}

// Wrongf notes what is wrong.
func (v *Verdict) Wrongf(format string, args ...any) {
	v.Wrong = append(v.Wrong, fmt.Sprintf(format, args...))
}

// OfWindows tells by the stream's name whether its rows are those of windows.
func (v *Verdict) OfWindows() bool { return strings.HasPrefix(v.Stream, "win") }

// In tells by the stream's name whether message i is of its sources: topics t/a have the even ones, t/b the others.
func (v *Verdict) In(i int) bool {
	switch {
	case strings.HasSuffix(v.Stream, "-a"):
		return i%2 == 0
	case strings.HasSuffix(v.Stream, "-b"):
		return i%2 == 1
	}
	return true
}

// TakeWindow takes a row of a window; a second one of the same window is a duplicate.
func (v *Verdict) TakeWindow(data []byte, to Windows) error {
	var w Window
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	c := Cell{w.Start, w.K}
	if _, twice := to[c]; twice {
		v.Duplicate++
	}
	to[c] = w
	return nil
}

// Once compares how often each message below n came: once those that must, no other twice.
func (v *Verdict) Once(n int, came map[int]int, must func(int) bool) {
	for i := range n {
		switch times := came[i]; {
		case times == 0 && must(i):
			v.Lost++
		case times > 1:
			v.Duplicate += times - 1
		}
	}
}

// Match compares windows: those that are closed must be there, and each that is must be right.
func (v *Verdict) Match(want, got Windows, closed func(Cell) bool) {
	for c, w := range want {
		g, there := got[c]
		switch {
		case !there && closed(c):
			v.Lost++
		case there && g != w:
			v.Wrongf("window %d %s: got %+v, want %+v", c.Start, c.K, g, w)
		}
	}
}

// Receiver is where the streams came to.
type Receiver interface {
	Streams() ([]string, error)
	Records(stream uplink.Stream, take func(generation uint64, l wire.Line) error) error
}

// Each gives the streams of a receiver, by name.
func Each(r Receiver, judge func(uplink.Stream) error) error {
	names, err := r.Streams()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(slices.Values(names)) {
		stream, err := wire.ParseStream(name)
		if err != nil {
			return err
		}
		if err := judge(stream); err != nil {
			return err
		}
	}
	return nil
}
