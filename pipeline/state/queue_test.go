package state_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline/state"
)

// TestQueueModel: a queue is a sorted list, whatever of it is in memory.
func TestQueueModel(t *testing.T) {
	pool := state.NewPool(backing(t), 600)
	rapid.Check(t, func(t *rapid.T) {
		if wrong := queueDiffers(t, pool.New(value(0, 0)).NewQueue()); wrong != "" {
			t.Fatal(wrong)
		}
	})
}

func queueDiffers(t *rapid.T, q *state.Queue) string {
	var model [][]byte
	for range rapid.IntRange(1, 100).Draw(t, "steps") {
		m := fmt.Appendf(nil, "m%d", rapid.IntRange(0, 30).Draw(t, "member"))
		i, found := slices.BinarySearchFunc(model, m, bytes.Compare)
		switch rapid.IntRange(0, 4).Draw(t, "op") {
		case 0, 1:
			if q.Add(m); !found {
				model = slices.Insert(model, i, m)
			}
		case 2:
			if q.Remove(m); found {
				model = slices.Delete(model, i, i+1)
			}
		default:
			if first := q.First(); first != nil {
				q.Remove(first)
			}
			if len(model) > 0 {
				model = model[1:]
			}
		}
		var want []byte
		if len(model) > 0 {
			want = model[0]
		}
		if got := q.First(); !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			return fmt.Sprintf("the first is %q, want %q", got, want)
		}
	}
	return ""
}

// TestQueueForgettingIsFound: members that leave the front for the store, and are lost there, must show.
func TestQueueForgettingIsFound(t *testing.T) {
	pool := state.NewPool(backing(t), 600)
	for seed := range 100 {
		if rapid.Custom(func(t *rapid.T) string {
			q := pool.New(value(0, 0)).NewQueue()
			q.PlantLost()
			return queueDiffers(t, q)
		}).Example(seed) != "" {
			return
		}
	}
	t.Error("not found")
}

// TestQueueFrontIsBounded: however many members there are, few are in memory, and all come out in order.
func TestQueueFrontIsBounded(t *testing.T) {
	q := state.NewPool(backing(t), 8<<20).New(value(0, 0)).NewQueue()
	const members = 20_000
	for i := range members {
		q.Add(fmt.Appendf(nil, "%08d", (i*7919)%members))
	}
	most := 0
	for i := range members {
		if got, want := string(q.First()), fmt.Sprintf("%08d", i); got != want {
			t.Fatalf("member %d is %q, want %q", i, got, want)
		}
		q.Remove(q.First())
		most = max(most, q.Front())
	}
	if q.First() != nil || most > 512 {
		t.Errorf("at the end %q; %d members in memory, want 512 at most", q.First(), most)
	}
}

// TestCursorAndKeysFrom: short walks forwards, and a table that changes under one's hands.
func TestCursorAndKeysFrom(t *testing.T) {
	table := state.NewPool(backing(t), 600).New(value(0, 0))
	x := table.NewIndex()
	for _, k := range []string{"a1", "a3", "b2", "c1", "c2"} {
		x.Set([]byte(k), nil)
		if err := table.Put([]byte(k), []byte("v")); err != nil {
			t.Fatal(err)
		}
	}
	c := x.Cursor()
	x.Delete([]byte("c1")) // the cursor does not see it
	var got []string
	for _, w := range [][2]string{{"a", "a2"}, {"b", "b"}, {"c", "c"}, {"d", "d"}} {
		c.Walk([]byte(w[0]), []byte(w[1]), func(key []byte) bool {
			got = append(got, string(key))
			return string(key) != "c1"
		})
	}
	c.Close()
	if want := []string{"a3", "b2", "c1"}; !slices.Equal(got, want) {
		t.Errorf("walked over %q, want %q", got, want)
	}
	keys := table.KeysFrom(nil, []byte("a"), []byte("a"), 1)
	table.Delete([]byte("a3"))
	keys = table.KeysFrom(keys, []byte("a"), []byte("a1\x00"), 9)
	keys = table.KeysFrom(keys, []byte("c"), []byte("c"), 9)
	if want := [][]byte{[]byte("a1"), []byte("c1"), []byte("c2")}; !slices.EqualFunc(keys, want, bytes.Equal) {
		t.Errorf("keys %q, want %q", keys, want)
	}
}
