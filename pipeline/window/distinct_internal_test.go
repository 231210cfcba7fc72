package window

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/axiomhq/hyperloglog"

	"github.com/weirstream/weir/pipeline"
)

func texts(n int) (rows []row) {
	for i := range n {
		rows = append(rows, row{pipeline.StringValue(fmt.Sprintf("device-%d", i)), int64(i), pipeline.Position(i + 1)})
	}
	return rows
}

func TestDistinctIsExactUpToItsLimit(t *testing.T) {
	s, _ := openAccumulators(t, Agg{Kind: Distinct})
	c := s.newCell(&s.state, "one")
	rows := texts(distinctMax)
	s.addAll(c, rows)
	s.addAll(c, rows)
	if got := s.value(0, c); got != fmt.Sprint(distinctMax) {
		t.Errorf("counted %s, want %d", got, distinctMax)
	}
	equal := []row{{v: pipeline.IntValue(1)}, {v: pipeline.FloatValue(1)}, {v: pipeline.FloatValue(0)}, {v: pipeline.FloatValue(math.Copysign(0, -1))}, {v: pipeline.StringValue("1")}, {}}
	c = s.newCell(&s.state, "two")
	s.addAll(c, equal)
	if got := s.value(0, c); got != "3" {
		t.Errorf("1, 1.0, 0.0, -0.0, \"1\" and null are %s values, want 3", got)
	}
}

// TestDistinctIsWithinItsBound: the docs promise a standard error of 1.6 %; 99.7 % of estimates are within three of those.
func TestDistinctIsWithinItsBound(t *testing.T) {
	squares, n := 0.0, 0
	for run := range 30 {
		s, _ := openAccumulators(t, Agg{Kind: Distinct})
		c := s.newCell(&s.state, "one")
		r := rand.New(rand.NewPCG(uint64(run), 9))
		want := 2000 + run*1500
		seen := map[uint64]bool{}
		for len(seen) < want {
			v := r.Uint64() >> 8
			seen[v] = true
			s.addAll(c, []row{{pipeline.UintValue(v), 1, 1}})
		}
		got := s.result(0, c, pipeline.NewOut("test", 1)).Int()
		e := float64(got)/float64(want) - 1
		if math.Abs(e) > 3*1.04/64 {
			t.Errorf("%d values are counted as %d: %.2f %%", want, got, e*100)
		}
		squares += e * e
		n++
	}
	if e := math.Sqrt(squares / float64(n)); e > 1.3*1.04/64 {
		t.Errorf("standard error %.2f %%, want 1.6 %%", e*100)
	}
}

// TestRegistersAreThoseOfTheLibrary: what is changed in place is what its Insert changes.
func TestRegistersAreThoseOfTheLibrary(t *testing.T) {
	sketch, err := hyperloglog.NewSketch(precision, false)
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, registersHead+1<<precision)
	b[0], b[1] = 2, precision
	binary.BigEndian.PutUint32(b[4:], 1<<precision)
	r := rand.New(rand.NewPCG(1, 9))
	for i := range 100_000 {
		h := r.Uint64() >> r.IntN(64)
		if i == 0 {
			h = 0
		}
		sketch.InsertHash(h)
		setRegister(b, h)
	}
	want, err := sketch.MarshalBinary()
	if err != nil || string(want) != string(b) {
		t.Errorf("registers differ from the library's: %v", err)
	}
}

// TestTheEstimateIsTheLibrarys, but for how the processor rounds.
func TestTheEstimateIsTheLibrarys(t *testing.T) {
	sketch, err := hyperloglog.NewSketch(precision, false)
	if err != nil {
		t.Fatal(err)
	}
	registers := make([]byte, 1<<precision)
	r := rand.New(rand.NewPCG(2, 9))
	for n := range 200_000 {
		h := r.Uint64()
		sketch.InsertHash(h)
		at, rho := placeOf(h)
		registers[at] = max(registers[at], rho)
		if n < 100 || n%997 == 0 {
			if got, want := estimate(registers), sketch.Estimate(); max(got, want)-min(got, want) > 1 {
				t.Fatalf("%d values: estimated as %d, the library says %d", n+1, got, want)
			}
		}
	}
}

// TestLongValuesAreOneValueBeforeAndBehindTheLimit: their hash must weigh the same when it is seen and when it is registered.
func TestLongValuesAreOneValueBeforeAndBehindTheLimit(t *testing.T) {
	s, _ := openAccumulators(t, Agg{Kind: Distinct})
	c := s.newCell(&s.state, "one")
	var rows []row
	for i := range distinctMax + 1 {
		rows = append(rows, row{v: pipeline.StringValue(fmt.Sprintf("%0100d", i))})
	}
	s.addAll(c, rows)
	before := s.value(0, c)
	s.addAll(c, rows)
	if after := s.value(0, c); after != before {
		t.Errorf("the same values again: %s, before %s", after, before)
	}
	if n := c.side.seen.Len(); n != 0 {
		t.Errorf("%d values are still kept", n)
	}
}

func FuzzCheckRegisters(f *testing.F) {
	good := make([]byte, registersHead+1<<precision)
	good[0], good[1] = 2, precision
	binary.BigEndian.PutUint32(good[4:], 1<<precision)
	f.Add(good)
	f.Add(good[:10])
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := checkRegisters(b); err != nil {
			if !errors.Is(err, ErrState) {
				t.Fatal(err)
			}
			return
		}
		var sketch hyperloglog.Sketch
		if err := sketch.UnmarshalBinary(b); err != nil {
			t.Fatal(err)
		}
		sketch.Estimate()
	})
}

func FuzzReadCollected(f *testing.F) {
	s, tables := openAccumulators(f, Agg{Kind: Collect, Param: 100})
	c := s.newCell(&s.state, "one")
	s.addAll(c, []row{{pipeline.IntValue(4), 1, 2}, {pipeline.StringValue("text"), 1, 3}, {pipeline.JSONValue("{}"), 1, 4}})
	_ = tables
	s.state.lists.RangeList(c.key, func(e []byte) bool { f.Add(append([]byte(nil), e...)); return true })
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, v, err := readCollected(b); err == nil && v.IsNull() {
			t.Fatal("a null was collected")
		} else if err != nil && !errors.Is(err, ErrState) {
			t.Fatal(err)
		}
	})
}
