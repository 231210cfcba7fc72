package window_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline/window"
)

func TestSpansOfATime(t *testing.T) {
	type spans = []window.Span
	for _, c := range []struct {
		name string
		a    window.Assigner
		at   int64
		want spans
	}{
		{"tumbling", window.AssignTumbling(10, 0), 9, spans{{0, 10}}},
		{"tumbling, start is inclusive", window.AssignTumbling(10, 0), 10, spans{{10, 20}}},
		{"tumbling before 1970", window.AssignTumbling(10, 0), -1, spans{{-10, 0}}},
		{"tumbling with offset", window.AssignTumbling(10, 3), 2, spans{{-7, 3}}},
		{"hopping", window.AssignHopping(10, 5, 0), 7, spans{{0, 10}, {5, 15}}},
		{"hopping at a start", window.AssignHopping(10, 5, 0), 10, spans{{5, 15}, {10, 20}}},
		{"hopping before 1970", window.AssignHopping(10, 5, 0), -3, spans{{-10, 0}, {-5, 5}}},
		{"size is no multiple of the slide", window.AssignHopping(7, 5, 0), 6, spans{{0, 7}, {5, 12}}},
		{"size is no multiple of the slide, one window", window.AssignHopping(7, 5, 0), 9, spans{{5, 12}}},
		{"gaps between windows", window.AssignHopping(3, 10, 0), 5, nil},
		{"session", window.AssignSession(10, false), 7, spans{{7, 17}}},
	} {
		if got := c.a.AppendSpans(nil, c.at); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestSpansAreThoseOfTheDefinition: every start that is a multiple of the slide with start <= t < start+size (SEMANTICS).
func TestSpansAreThoseOfTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size, slide := rapid.Int64Range(1, 40).Draw(t, "size"), rapid.Int64Range(1, 40).Draw(t, "slide")
		offset, at := rapid.Int64Range(1-slide, slide-1).Draw(t, "offset"), rapid.Int64Range(-100, 100).Draw(t, "time")
		var want []window.Span
		for start := int64(-400); start < 400; start++ {
			if (start-offset)%slide == 0 && start <= at && at < start+size {
				want = append(want, window.Span{Start: start, End: start + size})
			}
		}
		if got := window.AssignHopping(size, slide, offset).AppendSpans(nil, at); !slices.Equal(got, want) {
			t.Fatalf("size %d, slide %d, offset %d: %d is in %v, want %v", size, slide, offset, at, got, want)
		}
	})
}

func TestSessionsMeet(t *testing.T) {
	a, touching, apart := window.Span{Start: 0, End: 10}, window.Span{Start: 10, End: 20}, window.Span{Start: 11, End: 21}
	merge, split := window.AssignSession(10, false), window.AssignSession(10, true)
	if !merge.Meets(a, touching) || !merge.Meets(touching, a) || merge.Meets(a, apart) {
		t.Error("merge: windows that touch meet, others do not")
	}
	if split.Meets(a, touching) || split.Meets(touching, a) || !split.Meets(a, window.Span{Start: 9, End: 19}) {
		t.Error("split: only windows that overlap meet")
	}
}

func TestAssignersOutOfRange(t *testing.T) {
	year := 365 * 24 * time.Hour.Milliseconds()
	for name, a := range map[string]window.Assigner{
		"no size":           window.AssignTumbling(0, 0),
		"huge size":         window.AssignTumbling(math.MaxInt64, 0),
		"no slide":          window.AssignHopping(10, 0, 0),
		"offset":            window.AssignHopping(10, 5, 5),
		"negative gap":      window.AssignSession(-1, false),
		"ten years by 1 ms": window.AssignHopping(10*year, 1, 0),
		"nothing in common": window.AssignHopping(3_600_001, 1000, 0),
		"nothing":           {},
	} {
		if err := a.Validate(); !errors.Is(err, window.ErrConfig) {
			t.Errorf("%s: %v, want %v", name, err, window.ErrConfig)
		}
	}
	for _, a := range []window.Assigner{window.AssignHopping(3_600_000, 1000, 0), window.AssignSession(1, true), window.AssignTumbling(1, 0), window.AssignHopping(10, 20, -19)} {
		if err := a.Validate(); err != nil {
			t.Errorf("%+v: %v", a, err)
		}
	}
}
