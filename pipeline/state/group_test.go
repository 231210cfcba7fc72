package state_test

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline/state"
)

// groupBytes are what keys of groups are made of, and what stands wrongly in them.
var groupBytes = rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 'a', 0xfe, 0xff}), 0, 6)

// TestGroupsKeepTheOrder: to compare two keys is to compare what they have in common with their groups, then the rest, whatever the bytes.
func TestGroupsKeepTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) []byte {
			return append([]byte{0, 0, 0, 1, rapid.SampledFrom([]byte("gex")).Draw(t, label+"'s space")}, groupBytes.Draw(t, label)...)
		}
		a, b := draw("a"), draw("b")
		n, m := state.Grouped(a), state.Grouped(b)
		if got, want := cmp.Or(bytes.Compare(a[:n], b[:m]), bytes.Compare(a[n:], b[m:])), bytes.Compare(a, b); got != want {
			t.Fatalf("%x and %x: %d in parts, %d whole", a, b, got, want)
		}
		if state.WithinGroup(a, b) {
			c := draw("c")
			if bytes.Compare(a, c) <= 0 && bytes.Compare(c, b) < 0 && !bytes.Equal(c[:state.Grouped(c)], a[:n]) {
				t.Fatalf("%x is between %x and %x and of another group", c, a, b)
			}
		}
	})
}

// groupModel is a Map table as a map.
type groupModel map[[2]string]string

func (m groupModel) between(key, from, to string) (all []string) {
	for _, k := range slices.SortedFunc(maps.Keys(m), func(a, b [2]string) int { return cmp.Compare(a[1], b[1]) }) {
		if k[0] == key && from <= k[1] && k[1] < to {
			all = append(all, k[1]+"="+m[k])
		}
	}
	return all
}

// groupsAgainstModel writes and walks at random, "" when all walks are right.
func groupsAgainstModel(t *rapid.T, table *state.Table) string {
	model := groupModel{}
	bytesOf := func(label string) string { return string(groupBytes.Draw(t, label)) }
	for range rapid.IntRange(1, 60).Draw(t, "calls") {
		key, sub := bytesOf("key"), bytesOf("subkey")
		k := [2]string{key, sub}
		switch rapid.IntRange(0, 3).Draw(t, "call") {
		case 0:
			val := fmt.Sprint(len(model), rapid.IntRange(0, 9).Draw(t, "value"))
			put := table.PutSub
			if _, have := model[k]; !have && rapid.Bool().Draw(t, "insert") {
				put = table.InsertSub
			}
			if err := put([]byte(key), []byte(sub), []byte(val)); err != nil {
				t.Fatal(err)
			}
			model[k] = val
		case 1:
			if _, have := model[k]; table.DeleteSub([]byte(key), []byte(sub)) != have {
				return fmt.Sprintf("%x is there: %v", k, have)
			}
			delete(model, k)
		case 2:
			from, to := sub, bytesOf("to")
			var got []string
			table.WalkSub([]byte(key), []byte(from), []byte(to), func(sub, val []byte) bool {
				got = append(got, string(sub)+"="+string(val))
				return true
			})
			if want := model.between(key, from, to); fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Sprintf("%x from %x to %x: %q, want %q", key, from, to, got, want)
			}
		default:
			var got []string
			table.RangeSub([]byte(key), func(sub, val []byte) bool {
				got = append(got, string(sub)+"="+string(val))
				return true
			})
			if want := model.between(key, "", "\xff\xff\xff\xff\xff\xff\xff"); fmt.Sprint(got) != fmt.Sprint(want) {
				return fmt.Sprintf("all of %x: %q, want %q", key, got, want)
			}
		}
		if table.Len() != len(model) {
			return fmt.Sprintf("%d entries, want %d", table.Len(), len(model))
		}
	}
	return ""
}

func groupTable(pool *state.Pool) *state.Table {
	return pool.New(state.Spec{Name: "groups", Kind: state.Map, Type: "test", Version: 1})
}

// TestLargeGroupsAgainstModel: a walk within a key sees what waits to be written and what was deleted, and nothing of other keys.
func TestLargeGroupsAgainstModel(t *testing.T) {
	for _, memory := range []int64{400, 1 << 20} { // entries come and go; or wait as long as they may
		pool := state.NewPool(backing(t), memory)
		rapid.Check(t, func(t *rapid.T) {
			if diff := groupsAgainstModel(t, groupTable(pool)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

// TestLargeBlindWalkIsFound: a walk that does not see what waits is found.
func TestLargeBlindWalkIsFound(t *testing.T) {
	pool := state.NewPool(backing(t), 1<<20)
	for seed := range 200 {
		found := rapid.Custom(func(t *rapid.T) string {
			table := groupTable(pool)
			table.PlantBlindWalk()
			return groupsAgainstModel(t, table)
		}).Example(seed)
		if found != "" {
			return
		}
	}
	t.Error("not found")
}
