package oracle

import (
	"fmt"
	"testing"
)

// TestFindsHarm: each kind of damage to what a receiver holds makes a verdict that is not OK.
func TestFindsHarm(t *testing.T) {
	const n = 40
	want := Windows{}
	for i := range n {
		want.Add("k", int64(i), 10, i)
	}
	due := func(i int) bool { return i != 7 } // one that need not come
	closed := func(c Cell) bool { return c.Start < 30 }
	for name, test := range map[string]struct {
		harm                   func(ids map[int]int, got Windows)
		lost, duplicate, wrong int
	}{
		"none":                        {func(map[int]int, Windows) {}, 0, 0, 0},
		"one that need not come":      {func(ids map[int]int, _ Windows) { delete(ids, 7) }, 0, 0, 0},
		"a message is gone":           {func(ids map[int]int, _ Windows) { delete(ids, 8) }, 1, 0, 0},
		"a message came three times":  {func(ids map[int]int, _ Windows) { ids[9] = 3 }, 0, 2, 0},
		"a window is gone":            {func(_ map[int]int, got Windows) { delete(got, Cell{10, "k"}) }, 1, 0, 0},
		"an open window is not there": {func(_ map[int]int, got Windows) { delete(got, Cell{30, "k"}) }, 0, 0, 0},
		"a window has one too many":   {func(_ map[int]int, got Windows) { got.Add("k", 15, 10, 1) }, 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			v, ids, got := Verdict{Stream: "all"}, map[int]int{}, Windows{}
			for i := range n {
				ids[i]++
			}
			for _, w := range want {
				row := fmt.Appendf(nil, `{"window_start":%d,"k":%q,"n":%d,"sum":%d}`, w.Start, w.K, w.N, w.Sum)
				if err := v.TakeWindow(row, got); err != nil {
					t.Fatal(err)
				}
			}
			test.harm(ids, got)
			v.Once(n, ids, due)
			v.Match(want, got, closed)
			if v.Lost != test.lost || v.Duplicate != test.duplicate || len(v.Wrong) != test.wrong || v.OK() != (test.lost+test.duplicate+test.wrong == 0) {
				t.Errorf("%s, want lost %d duplicate %d wrong %d", v, test.lost, test.duplicate, test.wrong)
			}
		})
	}
	v, got := Verdict{}, Windows{}
	for range 2 {
		if err := v.TakeWindow([]byte(`{"window_start":10,"k":"k","n":1,"sum":1}`), got); err != nil {
			t.Fatal(err)
		}
	}
	if v.Duplicate != 1 {
		t.Errorf("a window that came twice: %s", v)
	}
}
