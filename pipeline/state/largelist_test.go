package state_test

import (
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline/state"
)

// TestLargeListModel: large lists are the model's at every step, as those in memory are (TestListModel).
func TestLargeListModel(t *testing.T) {
	table := largeMaker(t)
	rapid.Check(t, propertyLists(false, table))
}

// TestLargeListModelConcurrent has the encoder run beside the owner.
func TestLargeListModelConcurrent(t *testing.T) {
	table := largeMaker(t)
	rapid.Check(t, propertyLists(true, table))
}

// TestLargeListFaultsAreFound plants faults that the model must find.
func TestLargeListFaultsAreFound(t *testing.T) {
	for name, plant := range map[string]func(*state.Table){
		"": nil, "no second mark": (*state.Table).PlantOldMarkLists,
	} {
		m := newListModel(listed(0, 0), state.NewPool(backing(t), 1<<20).New)
		if plant != nil {
			plant(m.table)
		}
		found := &recorder{}
		m.table.Lock()
		for i := range 10 {
			add := func(b byte) {
				_ = m.table.Append([]byte("k"), []byte{b})
				m.m["k"] = append(m.m["k"], modelEntry{val: string([]byte{b})})
			}
			add(byte(i))
			add(byte(i + 50))
			m.freeze()
			add(byte(i + 100))
			m.table.DropFront([]byte("k"), 1)
			m.m["k"] = m.m["k"][1:]
			if i == 4 {
				m.abort(0, m.table.Unlock, m.table.Lock)
				continue
			}
			m.commit(found, m.table.Unlock, m.table.Lock)
		}
		m.table.Unlock()
		if (found.n > 0) != (plant != nil) {
			t.Errorf("%q: %d failures", name, found.n)
		}
	}
}

// dealtAlike gives the same calls, barriers and aborts to a list table of each kind, and tells how their images differ, "" when they do not.
func dealtAlike(maker func(state.Spec) *state.Table, plant func(*state.Table)) func(t *rapid.T) string {
	return func(t *rapid.T) string {
		near, far := state.New(listed(0, 0)), maker(listed(0, 0))
		plant(far)
		images := [2]map[[2]string]string{{}, {}}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			key := fmt.Appendf(nil, "k%d", rapid.IntRange(0, 3).Draw(t, "key"))
			elem := make([]byte, rapid.SampledFrom([]int{0, 3, 100, 300}).Draw(t, "size"))
			op, n := rapid.IntRange(0, 9).Draw(t, "op"), rapid.IntRange(1, 5).Draw(t, "n")
			for i, table := range []*state.Table{near, far} {
				switch {
				case op < 6:
					_ = table.Append(key, elem)
				case op == 6:
					table.DropFront(key, n)
				case op == 7:
					table.Delete(key)
				case op == 8:
					table.Freeze().Abort()
				default:
					if err := commitTo(images[i], table); err != nil {
						return err.Error()
					}
				}
			}
			if !maps.Equal(images[0], images[1]) {
				return fmt.Sprintf("in memory %q\nlarge     %q", images[0], images[1])
			}
		}
		return ""
	}
}

func commitTo(image map[[2]string]string, table *state.Table) error {
	f := table.Freeze()
	defer f.Commit()
	return f.Encode(func(key, sub, val []byte, deleted bool) error {
		if k := [2]string{string(key), string(sub)}; deleted {
			delete(image, k)
		} else {
			image[k] = string(val)
		}
		return nil
	})
}

// TestListsOfBothBackendsAreDealtAlike: images of either backend are equal, chunk by chunk; elements that slip into a checkpoint's chunk show.
func TestListsOfBothBackendsAreDealtAlike(t *testing.T) {
	maker := largeMaker(t)
	rapid.Check(t, func(t *rapid.T) {
		if diff := dealtAlike(maker, func(*state.Table) {})(t); diff != "" {
			t.Fatal(diff)
		}
	})
	for seed := range 200 {
		if rapid.Custom(dealtAlike(maker, (*state.Table).AppendHeldLarge)).Example(seed) != "" {
			return
		}
	}
	t.Error("the planted fault is not found")
}

// TestQueueDrainsInOrder: a queue gives what a sorted set gives, also when a drain puts more.
func TestQueueDrainsInOrder(t *testing.T) {
	maker := largeMaker(t)
	rapid.Check(t, func(t *rapid.T) {
		q, have := maker(value(0, 0)).NewQueue(), map[string]bool{}
		least := func() (first string) {
			for k := range have {
				if first == "" || k < first {
					first = k
				}
			}
			return first
		}
		draw := func(name string) string { return fmt.Sprintf("%02d", rapid.IntRange(0, 40).Draw(t, name)) }
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0, 1, 2:
				k := draw("put")
				q.Add([]byte(k))
				have[k] = true
			case 3:
				k := draw("remove")
				if rapid.Bool().Draw(t, "the first") {
					k = least()
				}
				q.Remove([]byte(k))
				delete(have, k)
			case 4:
				to := draw("to")
				q.Drain([]byte(to), func(key []byte) {
					want := least()
					if string(key) != want || want >= to {
						t.Fatalf("drained %s below %s, want %s", key, to, want)
					}
					delete(have, want)
					if k := draw("put by the drain"); k > want && rapid.Bool().Draw(t, "puts") {
						q.Add([]byte(k))
						have[k] = true
					}
				})
				if first := least(); first != "" && first < to {
					t.Fatalf("%s is left below %s", first, to)
				}
			}
			if got, want := string(q.First()), least(); got != want {
				t.Fatalf("first is %q, want %q", got, want)
			}
		}
	})
}
