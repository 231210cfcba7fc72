package exec

import (
	"errors"
	"fmt"
	"maps"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/store/pebblekv"
)

// largeTables makes tables that do not fit the memory: next to nothing of them stays there.
func largeTables(t *testing.T) func(string, state.Spec) *state.Table {
	db, err := pebblekv.OpenMem(1 << 20)
	if errors.Is(err, pebblekv.ErrNotBuilt) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	pool := state.NewPool(db, 200)
	return func(_ string, spec state.Spec) *state.Table { return pool.New(spec) }
}

// TestFarClocksFollowTheRule: the clocks of keys that do not fit the memory are those that do.
func TestFarClocksFollowTheRule(t *testing.T) {
	large := largeTables(t)
	againstTheRule(t, func(s *source) { s.keep(large) })
}

// keptClocks are the clocks of a source, and what its checkpoints hold of them.
type keptClocks struct {
	k     *keyClocks
	table *state.Table
	image map[string]string
}

func newKeptClocks(table *state.Table, image map[string]string) *keptClocks {
	c := &keptClocks{k: newKeyClocks([]int{0}, 4), table: table, image: image}
	c.k.beside(table)
	for key, val := range image {
		if err := table.Load([]byte(key), nil, []byte(val)); err != nil {
			panic(err)
		}
	}
	table.Range(func(key, _, val []byte) bool { return c.k.load(key[1:], val) })
	c.k.restored()
	return c
}

// checkpoint saves, and ends the checkpoint well or not.
func (c *keptClocks) checkpoint(abort bool) error {
	err := c.k.save(func(key, val []byte) error {
		if val == nil {
			c.table.Delete(key)
			return nil
		}
		return c.table.Put(key, val)
	})
	f := c.table.Freeze()
	if abort {
		f.Abort()
		return err
	}
	defer f.Commit()
	return errors.Join(err, f.Encode(func(key, _, val []byte, deleted bool) error {
		if deleted {
			delete(c.image, string(key))
		} else {
			c.image[string(key)] = string(val)
		}
		return nil
	}))
}

// clocksDiff does the same to clocks in memory and on flash, and tells the first difference, "" when there is none.
func clocksDiff(large func(string, state.Spec) *state.Table, plant func(*farClocks)) func(*rapid.T) string {
	return func(t *rapid.T) string {
		spec := (&source{}).spec()
		make := func(image [2]map[string]string) [2]*keptClocks {
			both := [2]*keptClocks{newKeptClocks(state.New(spec), image[0]), newKeptClocks(large("", spec), image[1])}
			plant(both[1].k.far)
			return both
		}
		both := make([2]map[string]string{{}, {}})
		elapsed, watermark := int64(0), [2]int64{-1000, -1000}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			op, at := rapid.IntRange(0, 9).Draw(t, "op"), rapid.Int64Range(0, 30).Draw(t, "at")
			elapsed += rapid.Int64Range(0, 3).Draw(t, "elapsed")
			slots := []pipeline.Value{pipeline.IntValue(rapid.Int64Range(0, 5).Draw(t, "key"))}
			var told [2]string
			for i, c := range both {
				switch {
				case op < 6:
					told[i] = c.k.record(slots, at, elapsed)
				case op == 6:
					watermark[i] = c.k.expire(elapsed-5, 2, watermark[i])
				default:
					if err := c.checkpoint(op == 7); err != nil {
						return err.Error()
					}
				}
				heard, some := c.k.heard()
				told[i] += fmt.Sprint(" watermark ", watermark[i], " keys ", c.k.count(), " heard ", heard, some)
				if some {
					told[i] += fmt.Sprint(" front ", c.k.front())
				}
			}
			if told[0] != told[1] {
				return fmt.Sprintf("in memory %s, large %s", told[0], told[1])
			}
			if op > 7 && !maps.Equal(both[0].image, both[1].image) {
				return fmt.Sprintf("checkpoint in memory %q, large %q", both[0].image, both[1].image)
			}
			if op == 9 { // each goes on from what the other saved
				both = make([2]map[string]string{both[1].image, both[0].image})
			}
		}
		return ""
	}
}

// TestClocksOfBothBackendsAreEqual: what they tell, and what checkpoints hold of them. A planted fault shows.
func TestClocksOfBothBackendsAreEqual(t *testing.T) {
	large := largeTables(t)
	rapid.Check(t, func(t *rapid.T) {
		if diff := clocksDiff(large, func(*farClocks) {})(t); diff != "" {
			t.Fatal(diff)
		}
	})
	for seed := range 200 {
		if rapid.Custom(clocksDiff(large, func(f *farClocks) { f.stuck = true })).Example(seed) != "" {
			return
		}
	}
	t.Error("the planted fault is not found")
}
