package ops_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/store/pebblekv"
)

// largeTables makes tables that do not fit the memory: next to nothing of them stays there.
func largeTables(t *testing.T) func(state.Spec) *state.Table {
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
	return state.NewPool(db, 300).New
}

// sortDiff draws a sort and how its lives go with either backend.
func sortDiff(large func(state.Spec) *state.Table, plant func(*ops.Sort)) func(*rapid.T) string {
	return func(t *rapid.T) string {
		c := ops.SortConfig{MaxKeys: rapid.SampledFrom([]int{0, 0, 3}).Draw(t, "max_keys")}
		return optest.BackendDiff(t, optest.Config{
			Ports: 2, OutOfOrdernessMs: rapid.Int64Range(0, 30).Draw(t, "out of orderness"),
			New: func() pipeline.Operator {
				op := ops.NewSort(c)
				plant(op)
				return op
			},
		}, drawRecords(t), large, false)
	}
}

// TestSortIsTheSameWithEitherBackend: results and checkpoints; a fault in how the next row is found shows.
func TestSortIsTheSameWithEitherBackend(t *testing.T) {
	large := largeTables(t)
	rapid.Check(t, func(t *rapid.T) {
		if diff := sortDiff(large, func(*ops.Sort) {})(t); diff != "" {
			t.Fatal(diff)
		}
	})
	for seed := range 200 {
		if rapid.Custom(sortDiff(large, (*ops.Sort).PlantForgottenNext)).Example(seed) != "" {
			return
		}
	}
	t.Error("the planted fault is not found")
}
