package device

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

// kept is a receiver that holds what a test says.
type kept map[string][]wire.Line

func (k kept) name(sink string) uplink.Stream {
	return uplink.Stream{Gateway: "device", Pipeline: "2f0e8a7c-5a5e-4c39-9a57-6c6f2b1d9b10", Sink: sink}
}

func (k kept) Streams() (names []string, err error) {
	for sink := range k {
		names = append(names, k.name(sink).String())
	}
	return names, nil
}

func (k kept) RecordsAfter(s uplink.Stream, _, seq uint64, f func(uint64, wire.Line) error) error {
	for _, l := range k[s.Sink] {
		if l.Last > seq {
			if err := f(1, l); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k kept) add(sink string, row any) {
	data, err := json.Marshal(row)
	if err != nil {
		panic(err)
	}
	n := uint64(len(k[sink]) + 1)
	k[sink] = append(k[sink], wire.Line{Seq: n, Last: n, Data: data})
}

// drop takes a row out as if it had never been numbered.
func (k kept) drop(sink string, i int) {
	k[sink] = slices.Delete(k[sink], i, i+1)
	for ; i < len(k[sink]); i++ {
		k[sink][i].Seq, k[sink][i].Last = k[sink][i].Seq-1, k[sink][i].Last-1
	}
}

// exactly what n messages make.
func exactly(n int) kept {
	k, windows := kept{}, map[cell]windowRow{}
	for i := range n {
		m := messageOf(i)
		k.add("union-now", m)
		k.add(map[bool]string{true: "now-a", false: "later-b"}[even(i)], m)
		c := cell{m.TS / windowMs * windowMs, m.K}
		windows[c] = windowRow{c.start, c.k, windows[c].N + 1, windows[c].Sum + m.V}
	}
	for _, w := range windows {
		k.add("win-later", w)
	}
	k.add("win-later", windowRow{Start: baseMs + 1e9, K: "flush", N: 2})
	for i := n; i < n+2; i++ {
		m := message{ID: i, K: "flush", TS: baseMs + 1e9}
		k.add("union-now", m)
		k.add(map[bool]string{true: "now-a", false: "later-b"}[even(i)], m)
	}
	return k
}

// TestOracle: it accepts what is right, and finds whatever is planted.
func TestOracle(t *testing.T) {
	const n = 250
	for name, x := range map[string]struct {
		plant func(k kept)
		want  string // lost, duplicate, wrong
	}{
		"nothing":              {func(kept) {}, "0 0 0"},
		"a row is gone":        {func(k kept) { k.drop("now-a", 0) }, "1 0 0"},
		"a sink is gone":       {func(k kept) { delete(k, "later-b") }, fmt.Sprint(n/2, 0, 0)},
		"a row comes twice":    {func(k kept) { k.add("later-b", messageOf(1)) }, "0 1 0"},
		"a row is another":     {func(k kept) { k.add("union-now", message{ID: n + 5, V: -1}) }, "0 0 1"},
		"a window is gone":     {func(k kept) { k.drop("win-later", 0) }, "1 0 0"},
		"a window comes twice": {func(k kept) { w := k["win-later"]; w[len(w)-1].Data = w[0].Data }, "0 1 0"},
		"a window is wrong": {func(k kept) {
			k["win-later"][0].Data = bytes.Replace(k["win-later"][0].Data, []byte(`"n":`), []byte(`"n":1`), 1)
		}, "0 0 1"},
		"a gap":                  {func(k kept) { k["now-a"][3] = wire.Line{Seq: 4, Last: 4, Gap: true} }, "1 0 1"},
		"a sequence is left out": {func(k kept) { k["now-a"] = slices.Delete(k["now-a"], 3, 4) }, "1 0 1"},
	} {
		t.Run(name, func(t *testing.T) {
			k := exactly(n)
			x.plant(k)
			o := newOracle(k)
			for range 2 { // a second look finds nothing more
				if err := o.follow(); err != nil {
					t.Fatal(err)
				}
			}
			v := o.judge(n)
			if over := o.over(n); over != (name != "a sink is gone") {
				t.Errorf("it is over: %v", over)
			}
			if got := fmt.Sprint(v.lost, v.duplicate, len(v.wrong)); got != x.want || v.exact() != (x.want == "0 0 0") {
				t.Errorf("lost, duplicate, wrong are %s, want %s: %v", got, x.want, v)
			}
		})
	}
}
