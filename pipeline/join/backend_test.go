package join_test

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/join"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/store/pebblekv"
)

// largeTables makes tables that do not fit the memory: next to nothing of them stays there.
func largeTables(t testing.TB) func(state.Spec) *state.Table {
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

func intervalDiff(large func(state.Spec) *state.Table, plant func(*join.Interval)) func(*rapid.T) string {
	return func(t *rapid.T) string {
		c := drawInterval(t)
		c.MaxKeys = rapid.SampledFrom([]int{0, 0, 5}).Draw(t, "max_keys")
		c.TTL = rapid.SampledFrom([]int64{0, 0, 15, 60}).Draw(t, "ttl")
		return optest.BackendDiff(t, optest.Config{
			Ports: 2, OutOfOrdernessMs: rapid.Int64Range(0, 15).Draw(t, "delay"),
			New: func() pipeline.Operator {
				op := join.NewInterval(c)
				plant(op)
				return op
			},
		}, drawRecords(t, 12), large, false)
	}
}

func windowedDiff(large func(state.Spec) *state.Table, plant func(*join.Windowed)) func(*rapid.T) string {
	return func(t *rapid.T) string {
		c := drawWindowed(t)
		c.MaxKeys = rapid.SampledFrom([]int{0, 0, 5}).Draw(t, "max_keys")
		return optest.BackendDiff(t, optest.Config{
			Ports: 2, OutOfOrdernessMs: rapid.Int64Range(0, 15).Draw(t, "delay"),
			New: func() pipeline.Operator {
				op := join.NewWindowed(c)
				plant(op)
				return op
			},
		}, drawRecords(t, 25), large, false)
	}
}

// TestJoinsAreTheSameWithEitherBackend: results, order and checkpoints.
func TestJoinsAreTheSameWithEitherBackend(t *testing.T) {
	large := largeTables(t)
	for name, diff := range map[string]func(*rapid.T) string{
		"interval": intervalDiff(large, sound),
		"windowed": windowedDiff(large, func(*join.Windowed) {}),
		"latest": func(t *rapid.T) string {
			c := join.LatestConfig{
				Sides: sides(), Output: output(false), Type: rapid.SampledFrom([]join.Type{join.Inner, join.LeftOuter}).Draw(t, "type"),
				MaxKeys: rapid.SampledFrom([]int{0, 2}).Draw(t, "max_keys"), TTL: rapid.SampledFrom([]int64{0, 15}).Draw(t, "ttl"),
			}
			return optest.BackendDiff(t, optest.Config{Ports: 2, New: func() pipeline.Operator { return join.NewLatest(c) }}, drawRecords(t, 12), large, c.TTL > 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				if diff := diff(t); diff != "" {
					t.Fatal(diff)
				}
			})
		})
	}
}

// TestPlantedFarFaultsAreFound: what is rebuilt beside a table on flash and is not right shows.
func TestPlantedFarFaultsAreFound(t *testing.T) {
	large := largeTables(t)
	for name, diff := range map[string]func(*rapid.T) string{
		"due not restored":              intervalDiff(large, (*join.Interval).PlantForgottenDue),
		"partner not noted":             intervalDiff(large, (*join.Interval).PlantForgottenFarPartners),
		"next window not restored":      windowedDiff(large, (*join.Windowed).PlantForgottenStarts),
		"united sessions not forgotten": windowedDiff(large, (*join.Windowed).PlantForgottenSpans),
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range 500 {
				if rapid.Custom(diff).Example(seed) != "" {
					return
				}
			}
			t.Error("not found")
		})
	}
}

// TestFarStateThatIsNotReadableIsRefused by tables on flash as by those in memory.
func TestFarStateThatIsNotReadableIsRefused(t *testing.T) {
	large := largeTables(t)
	for name, op := range map[string]pipeline.Operator{
		"interval": join.NewInterval(join.IntervalConfig{Sides: sides(), Output: output(false)}),
		"windowed": join.NewWindowed(join.WindowedConfig{Sides: sides(), Output: output(true), Windows: join.Windows{SizeMs: 10, SlideMs: 5}}),
		"sessions": join.NewWindowed(join.WindowedConfig{Sides: sides(), Output: output(true), Windows: join.Windows{GapMs: 10}}),
	} {
		have := &madeBy{make: large}
		if err := op.Open(have); err != nil {
			t.Fatal(err)
		}
		if err := have.list[0].Load([]byte("k"), make([]byte, 21), []byte("\x08\x00")); err != nil {
			t.Fatal(err)
		}
		if err := op.Restored(); !errors.Is(err, join.ErrState) {
			t.Errorf("%s: restored with %v, want %v", name, err, join.ErrState)
		}
	}
}

type madeBy struct {
	make func(state.Spec) *state.Table
	list []*state.Table
}

func (m *madeBy) Table(spec state.Spec) (*state.Table, error) {
	m.list = append(m.list, m.make(spec))
	return m.list[len(m.list)-1], nil
}
