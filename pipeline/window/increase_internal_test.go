package window

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/optest"
)

func samples(values ...any) (rows []row) {
	for i, v := range values {
		r := row{time: int64(i+1) * 1000, pos: pipeline.Position(i + 1)}
		switch v := v.(type) {
		case int:
			r.v = pipeline.IntValue(int64(v))
		case uint64:
			r.v = pipeline.UintValue(v)
		case float64:
			r.v = pipeline.FloatValue(v)
		}
		rows = append(rows, r)
	}
	return rows
}

func TestIncreaseAndRate(t *testing.T) {
	late := []row{{pipeline.IntValue(500), 2000, 1}, {pipeline.IntValue(490), 1000, 2}, {pipeline.IntValue(510), 3000, 3}}
	between := []row{{pipeline.IntValue(490), 1000, 1}, {pipeline.IntValue(510), 3000, 2}, {pipeline.IntValue(500), 2000, 3}}
	for name, c := range map[string]struct {
		rows           []row
		increase, rate string
	}{
		"nothing":                        {nil, "null", "null"},
		"one sample says nothing":        {samples(5), "null", "null"},
		"null is left out":               {samples(5, nil, 7), "2", "1"},
		"restart":                        {samples(100, 110, 0, 10), "20", "6.666666666666667"},
		"late sample before the first":   {late, "20", "10"},
		"late sample between":            {between, "20", "10"},
		"at one time":                    {[]row{{pipeline.IntValue(1), 1000, 1}, {pipeline.IntValue(4), 1000, 2}}, "3", "null"},
		"beyond 2^53":                    {samples(uint64(1<<53), uint64(1<<53+1), uint64(1<<53+2)), "2", "1"},
		"beyond int64":                   {samples(0, uint64(math.MaxUint64)), "18446744073709551615", "1.8446744073709552e19"},
		"floats":                         {samples(0.5, 2.0, 0.25), "1.75", "0.875"},
		"what stands still rises by 0":   {samples(7, 7), "0", "0"},
		"a negative number is no sample": {samples(7, -3, 9), "2", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := openAccumulators(t, Agg{Kind: Increase}, Agg{Kind: Rate})
			one := s.newCell(&s.state, "one")
			s.addAll(one, c.rows)
			if a, b := s.value(0, one), s.value(1, one); a != c.increase || b != c.rate {
				t.Errorf("increase %s, rate %s, want %s and %s", a, b, c.increase, c.rate)
			}
			panes := s.throughPanes(c.rows, 1000)
			if a, b := s.value(0, panes), s.value(1, panes); a != c.increase || b != c.rate {
				t.Errorf("panes: increase %s, rate %s, want %s and %s", a, b, c.increase, c.rate)
			}
		})
	}
}

// plainIncrease is the definition: over the samples in the order of time.
func plainIncrease(rows []row) *big.Int {
	total := new(big.Int)
	for i := 1; i < len(rows); i++ {
		prev, cur := new(big.Int).SetUint64(rows[i-1].v.Uint()), new(big.Int).SetUint64(rows[i].v.Uint())
		if cur.Cmp(prev) >= 0 {
			cur.Sub(cur, prev)
		}
		total.Add(total, cur)
	}
	return total
}

func drawSamples(t *rapid.T) (rows []row) {
	for i := range rapid.IntRange(2, 40).Draw(t, "samples") {
		v := rapid.OneOf(rapid.Uint64Max(100), rapid.Uint64Max(100), rapid.Uint64()).Draw(t, "counter")
		rows = append(rows, row{pipeline.UintValue(v), int64(i * 3), pipeline.Position(i + 1)})
	}
	return rows
}

// increaseDiffers compares with the definition: as it is, and in panes that are merged in any grouping.
func (s *accumulators) increaseDiffers(rows []row, size int64) string {
	want := plainIncrease(rows)
	for _, c := range []cell{s.throughPanes(rows, 1<<40), s.throughPanes(rows, size)} {
		got := s.result(0, c, pipeline.NewOut("test", 1))
		if fits := want.IsUint64(); fits == (got.Kind == pipeline.Error) || fits && want.Uint64() != got.Uint() {
			return want.String() + " is the increase, not " + s.value(0, c)
		}
	}
	return ""
}

func TestIncreaseFollowsItsDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _ := openAccumulators(t, Agg{Kind: Increase})
		if found := s.increaseDiffers(drawSamples(t), rapid.Int64Range(1, 60).Draw(t, "pane")); found != "" {
			t.Fatal(found)
		}
	})
}

func TestPlantedBlindnessForRestartsIsFound(t *testing.T) {
	s, _ := openAccumulators(t, Agg{Kind: Increase})
	s.fault.resetBlind = true
	if s.increaseDiffers(samples(100, 110, 0, 10), 1000) == "" {
		t.Error("not found")
	}
}

// TestIncreaseMergesEitherWay: a run of samples may come before or behind what is there.
func TestIncreaseMergesEitherWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _ := openAccumulators(t, Agg{Kind: Increase}, Agg{Kind: Rate})
		rows := drawSamples(t)
		cut := rapid.IntRange(0, len(rows)).Draw(t, "cut")
		halves := [][]row{rows[:cut], rows[cut:]}
		var got []string
		for _, order := range [][]int{{0, 1}, {1, 0}} {
			total := s.newCell(s.scratch(), "total")
			for _, h := range order {
				c := s.newCell(s.scratch(), "half")
				s.addAll(c, halves[h])
				s.merge(total, c)
			}
			got = append(got, s.value(0, total)+" "+s.value(1, total))
		}
		if got[0] != got[1] {
			t.Fatalf("%s one way, %s the other", got[0], got[1])
		}
	})
}

// TestOverlappingRunsNeverReadAsRestarts: windows by arrival may merge runs that overlap in time.
func TestOverlappingRunsNeverReadAsRestarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _ := openAccumulators(t, Agg{Kind: Increase})
		rows := samples(0, 10, 20, 30, 40, 50, 60, 70)
		rows = rapid.Permutation(rows).Draw(t, "arrival")
		total := s.newCell(s.scratch(), "total")
		for chunk := range slices.Chunk(rows, rapid.IntRange(1, 8).Draw(t, "count")) {
			c := s.newCell(s.scratch(), "part")
			s.addAll(c, chunk)
			s.merge(total, c)
		}
		if got := s.value(0, total); got != "70" {
			t.Fatalf("increase is %s, want 70", got)
		}
	})
}

func TestRateOfTextIsRefused(t *testing.T) {
	s := newAccumulators([]Agg{{Kind: Rate, Arg: optest.Expr("key")}})
	args := make([]pipeline.Value, 1)
	for _, v := range []pipeline.Value{pipeline.StringValue("7"), pipeline.IntValue(-1), pipeline.FloatValue(-0.5)} {
		if s.arguments([]pipeline.Value{v}, args) == "" {
			t.Errorf("%v is taken", v)
		}
	}
	if why := s.arguments([]pipeline.Value{pipeline.FloatValue(math.Copysign(0, -1))}, args); why != "" {
		t.Errorf("-0.0 is refused: %s", why)
	}
}
