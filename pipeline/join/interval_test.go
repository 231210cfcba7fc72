package join_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/join"
	"github.com/weirstream/weir/pipeline/optest"
)

func drawInterval(t *rapid.T) join.IntervalConfig {
	return join.IntervalConfig{
		Sides: sides(), Output: output(false), Type: rapid.SampledFrom([]join.Type{join.Inner, join.LeftOuter, join.Full}).Draw(t, "type"),
		BeforeMs: rapid.SampledFrom([]int64{0, 1, 5, 12}).Draw(t, "before"), AfterMs: rapid.SampledFrom([]int64{0, 1, 5, 12}).Draw(t, "after"),
	}
}

// againstModel compares an interval join with its definition, "" when they agree.
func againstModel(c join.IntervalConfig, delay int64, records []optest.Record, plant func(*join.Interval)) string {
	result, err := optest.Run(optest.Config{Ports: 2, OutOfOrdernessMs: delay, New: func() pipeline.Operator {
		op := join.NewInterval(c)
		plant(op)
		return op
	}}, records)
	if err != nil {
		return err.Error()
	}
	rows, late := modelInterval(c, delay, records)
	if got, want := showAll(result.Ports[0]), strings.Join(rows, "\n"); got != want {
		return fmt.Sprintf("joined\n%s\nwant\n%s", got, want)
	}
	if got, want := showAll(result.Ports[join.LatePort]), strings.Join(late, "\n"); got != want || int(result.Counters.Late) != len(late) {
		return fmt.Sprintf("late, counted %d,\n%s\nwant\n%s", result.Counters.Late, got, want)
	}
	return ""
}

func sound(*join.Interval) {}

func TestIntervalAgainstNestedLoop(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawInterval(t)
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		if diff := againstModel(c, rapid.Int64Range(0, 15).Draw(t, "delay"), drawRecords(t, 12), sound); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestIntervalReplays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawInterval(t)
		c.MaxKeys = rapid.SampledFrom([]int{0, 0, 5}).Draw(t, "max_keys")
		c.TTL = rapid.SampledFrom([]int64{0, 0, 15, 60}).Draw(t, "ttl")
		optest.ReplayEquality(t, optest.Config{
			Ports: 2, OutOfOrdernessMs: rapid.Int64Range(0, 15).Draw(t, "delay"), New: func() pipeline.Operator { return join.NewInterval(c) },
		}, drawRecords(t, 12))
	})
}

// TestPlantedIntervalFaultsAreFound: the model and the replay find what they are there for.
func TestPlantedIntervalFaultsAreFound(t *testing.T) {
	for name, plant := range map[string]func(*join.Interval){
		"bounds exclusive": (*join.Interval).PlantExclusive, "rows go too early": (*join.Interval).PlantEarly, "partners unsorted": (*join.Interval).PlantUnsorted,
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range 500 {
				found := rapid.Custom(func(t *rapid.T) string {
					return againstModel(drawInterval(t), rapid.Int64Range(0, 15).Draw(t, "delay"), drawRecords(t, 12), plant)
				}).Example(seed)
				if found != "" {
					return
				}
			}
			t.Error("not found")
		})
	}
	t.Run("partners not restored", func(t *testing.T) {
		c := join.IntervalConfig{Sides: sides(), Output: output(false), Type: join.LeftOuter, AfterMs: 5}
		var rows [2]optest.Result
		for i, between := range []func(int) optest.Checkpoint{nil, func(int) optest.Checkpoint { return optest.Restore }} {
			result, err := optest.Run(optest.Config{Ports: 2, Between: between, New: func() pipeline.Operator {
				op := join.NewInterval(c)
				op.PlantForgottenPartners()
				return op
			}}, []optest.Record{rec(join.Left, 1, "a", 1), rec(join.Right, 1, "a", 2), rec(join.Right, 20, "a", 3)})
			if err != nil {
				t.Fatal(err)
			}
			rows[i] = result
		}
		if optest.Diff(rows[0], rows[1]) == "" {
			t.Error("not found")
		}
	})
}

func rec(input int, time int64, key string, seq int64) optest.Record {
	return optest.Record{Input: input, Time: time, Slots: []pipeline.Value{pipeline.StringValue(key), {}, pipeline.IntValue(seq), {}}}
}

func runInterval(t *testing.T, c join.IntervalConfig, records ...optest.Record) optest.Result {
	t.Helper()
	c.Sides, c.Output = sides(), output(false)
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	result, err := optest.Run(optest.Config{Ports: 2, New: func() pipeline.Operator { return join.NewInterval(c) }}, records)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// TestIntervalLimits: max_keys bounds the rows held and a refused row joins nothing; a ttl bounds how long one waits.
func TestIntervalLimits(t *testing.T) {
	result := runInterval(t, join.IntervalConfig{Type: join.Full, AfterMs: 5, MaxKeys: 1},
		rec(join.Left, 1, "a", 1), rec(join.Right, 2, "a", 2), rec(join.Right, 9, "a", 3), rec(join.Right, 9, "a", 4))
	if got, want := showAll(result.Ports[0]), "3/3/7: 1 - at 6\n5/3/10: - 4 at 9"; got != want {
		t.Errorf("joined\n%s\nwant\n%s", got, want)
	}
	if len(result.Dead) != 2 || result.Dead[0].Reason != "max_keys" || result.Dead[0].Row.Slots[optest.SlotSeq].Int() != 2 {
		t.Errorf("dead letters %+v", result.Dead)
	}
	records := []optest.Record{rec(join.Left, 1, "a", 1), rec(join.Left, 1, "b", 2), rec(join.Right, 2, "a", 3), rec(join.Right, 3, "b", 4)}
	records[3].Elapsed = 10
	result = runInterval(t, join.IntervalConfig{Type: join.LeftOuter, AfterMs: 5, TTL: 10}, records...)
	if got, want := showAll(result.Ports[0]), "3/2/0: 1 3 at 2\n4/0/10: 2 - at 6"; got != want {
		t.Errorf("joined\n%s\nwant\n%s", got, want)
	}
	result = runInterval(t, join.IntervalConfig{Type: join.Inner, AfterMs: 5, TTL: 10}, records...)
	if got, want := showAll(result.Ports[0]), "3/2/0: 1 3 at 2"; got != want {
		t.Errorf("joined\n%s\nwant\n%s", got, want)
	}
}
