package window_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/window"
)

// common is the config of the rows that tumbling makes.
func common(lateness time.Duration) window.Config {
	c := tumbling(time.Second, lateness)
	return window.Config{
		Key: c.Key, LatenessMs: c.LatenessMs, Aggs: c.Aggs, Width: c.Width, KeyOut: c.KeyOut,
		StartSlot: c.StartSlot, EndSlot: c.EndSlot, RevisionSlot: c.RevisionSlot,
	}
}

func hopping(size, slide, lateness time.Duration) window.HoppingConfig {
	return window.HoppingConfig{Config: common(lateness), SizeMs: size.Milliseconds(), SlideMs: slide.Milliseconds()}
}

type validator interface{ Validate() error }

func runOp(t testing.TB, delay int64, op func() pipeline.Operator, c validator, records ...optest.Record) optest.Result {
	t.Helper()
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	result, err := optest.Run(optest.Config{Ports: 2, OutOfOrdernessMs: delay, New: op}, records)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func newHopping(c window.HoppingConfig) func() pipeline.Operator {
	return func() pipeline.Operator { return window.NewHopping(c) }
}

func TestHoppingKnownAnswers(t *testing.T) {
	for _, set := range []string{"nab-traffic", "nab-machine-temp", "nab-keystroke-gaps"} {
		t.Run(set, func(t *testing.T) {
			c := hopping(time.Hour, 10*time.Minute, 0)
			result := runOp(t, (4 * time.Hour).Milliseconds(), newHopping(c), c, accepted(t, set)...)
			compareWindows(t, result.Ports[0], optest.Expected(t, set, "hopping_1h_by_10m"))
			if len(result.Ports[1]) != 0 || len(result.Dead) != 0 {
				t.Errorf("%d late rows, %d dead letters, want none", len(result.Ports[1]), len(result.Dead))
			}
		})
	}
}

// firing is one row of results, as the definition wants it.
type firing struct {
	pos        uint64
	start      int64
	key        string
	count, sum int64
	revision   int64
}

func (f firing) String() string {
	return fmt.Sprintf("%d %s@%d=%d/%d/%d", f.pos, f.key, f.start, f.count, f.sum, f.revision)
}

func firings(rows []pipeline.Row) (all []firing) {
	for _, r := range rows {
		all = append(all, firing{
			uint64(r.Pos), r.Slots[outStart].Int(), r.Slots[outKey].Str, r.Slots[outCount].Int(), r.Slots[outSum].Int(), r.Slots[outRevision].Int(),
		})
	}
	return all
}

// defined runs the definition (SEMANTICS of the known answers): each window of each key a list of its own.
func defined(a window.Assigner, delay, lateness int64, records []optest.Record) (all []firing, late int) {
	type id struct {
		window.Span
		key string
	}
	type content struct{ count, sum, fired int64 }
	open := map[id]*content{}
	watermark := int64(math.MinInt64)
	timeMax := int64(math.MinInt64)
	fire := func(pos int, w id) {
		c := open[w]
		all = append(all, firing{uint64(pos), w.Start, w.key, c.count, c.sum, c.fired})
		c.fired++
	}
	advance := func(pos int, to int64) {
		var due []id
		for w, c := range open {
			if w.End <= to && w.End > watermark && c.fired == 0 {
				due = append(due, w)
			}
		}
		slices.SortFunc(due, func(a, b id) int { return cmp.Or(a.Span.Compare(b.Span), strings.Compare(a.key, b.key)) })
		for _, w := range due {
			fire(pos, w)
		}
		watermark = to
	}
	for i, r := range records {
		for _, w := range a.AppendSpans(nil, r.Time) {
			if watermark >= w.End+lateness {
				late++
				continue
			}
			w := id{w, r.Slots[0].Str}
			if open[w] == nil {
				open[w] = &content{}
			}
			open[w].count++
			open[w].sum += r.Slots[1].Int()
			if watermark >= w.End {
				fire(i+1, w)
			}
		}
		if timeMax = max(timeMax, r.Time); timeMax-delay > watermark {
			advance(i+1, timeMax-delay)
		}
	}
	advance(len(records)+1, math.MaxInt64)
	return all, late
}

func drawIntegerRecords(t *rapid.T) []optest.Record {
	at := int64(0)
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) optest.Record {
		at += rapid.SampledFrom([]int64{0, 1, 3, 20, 200}).Draw(t, "ahead")
		return rec(at-rapid.SampledFrom([]int64{0, 0, 1, 7, 30, 250}).Draw(t, "behind"), rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key"), rapid.Int64Range(1, 9).Draw(t, "value"))
	}), 0, 60).Draw(t, "records")
}

func TestHoppingIsTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, records, delay := drawHopping(t), drawIntegerRecords(t), rapid.Int64Range(0, 30).Draw(t, "out of orderness")
		if diff := againstDefinition(t, c, false, records, delay); diff != "" {
			t.Fatal(diff)
		}
	})
}

func drawHopping(t *rapid.T) window.HoppingConfig {
	c := window.HoppingConfig{
		Config: common(time.Duration(rapid.SampledFrom([]int64{0, 0, 4, 40}).Draw(t, "lateness")) * time.Millisecond),
		SizeMs: rapid.Int64Range(1, 70).Draw(t, "size"), SlideMs: rapid.Int64Range(1, 30).Draw(t, "slide"),
	}
	c.OffsetMs = rapid.Int64Range(1-c.SlideMs, c.SlideMs-1).Draw(t, "offset")
	return c
}

func againstDefinition(t *rapid.T, c window.HoppingConfig, stale bool, records []optest.Record, delay int64) string {
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	result, err := optest.Run(optest.Config{Ports: 2, OutOfOrdernessMs: delay, New: func() pipeline.Operator {
		op := window.NewHopping(c)
		if stale {
			op.PlantStale()
		}
		return op
	}}, records)
	if err != nil {
		t.Fatal(err)
	}
	want, late := defined(window.AssignHopping(c.SizeMs, c.SlideMs, c.OffsetMs), delay, c.LatenessMs, records)
	got := firings(result.Ports[0])
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			return fmt.Sprintf("firing %d is %v, want %v", i, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%d firings, want %d: %v, want %v", len(got), len(want), got, want)
	}
	if result.Counters.Late != uint64(late) || len(result.Ports[1]) != late {
		return fmt.Sprintf("%d late, counted %d, want %d", len(result.Ports[1]), result.Counters.Late, late)
	}
	return ""
}

// TestPlantedStaleContentsAreFound: a row that comes late into a pane must reach the partial contents above it.
func TestPlantedStaleContentsAreFound(t *testing.T) {
	c := hopping(40*time.Millisecond, 10*time.Millisecond, 0)
	records := []optest.Record{rec(1, "a", 1), rec(11, "a", 2), rec(21, "a", 4), rec(31, "a", 8), rec(40, "a", 16), rec(22, "a", 32), rec(60, "a", 64)}
	for _, planted := range []bool{false, true} {
		result, err := optest.Run(optest.Config{Ports: 2, New: func() pipeline.Operator {
			op := window.NewHopping(c)
			if planted {
				op.PlantStale()
			}
			return op
		}}, records)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := defined(window.AssignHopping(c.SizeMs, c.SlideMs, 0), 0, 0, records)
		if found := !slices.Equal(firings(result.Ports[0]), want); found != planted {
			t.Errorf("planted %v, found %v", planted, found)
		}
	}
}

// TestHoppingReplayEquality: awkward numbers, text, late rows, early firings; crashes anywhere.
func TestHoppingReplayEquality(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawn := drawConfig(t)
		c := window.HoppingConfig{
			Config: window.Config{
				Key: drawn.Key, LatenessMs: drawn.LatenessMs, MaxKeys: drawn.MaxKeys, Aggs: drawn.Aggs, Width: drawn.Width, KeyOut: drawn.KeyOut,
				StartSlot: drawn.StartSlot, EndSlot: drawn.EndSlot, RevisionSlot: drawn.RevisionSlot, EarlyMs: rapid.SampledFrom([]int64{0, 0, 5}).Draw(t, "early"),
			},
			SizeMs: rapid.Int64Range(1, 40).Draw(t, "size"), SlideMs: rapid.Int64Range(1, 20).Draw(t, "slide"),
		}
		if rapid.IntRange(0, 3).Draw(t, "top") == 0 {
			c.Aggs = nil
			c.Top = &window.Top{N: 2, Order: optest.Expr("value"), Descending: rapid.Bool().Draw(t, "descending"), Ties: rapid.Bool().Draw(t, "ties"), Columns: []int{1, 2}, Out: []int{4, 5}, RankSlot: 6}
			c.Width = 7
		}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		replayAnywhere(t, optest.Config{New: newHopping(c), Ports: 2, Keyed: true, OutOfOrdernessMs: rapid.Int64Range(0, 30).Draw(t, "out of orderness")}, drawRecords(t), false)
	})
}

func TestHoppingComesOutEarly(t *testing.T) {
	c := hopping(40*time.Millisecond, 20*time.Millisecond, 0)
	c.EarlyMs = 10
	result := runOp(t, 0, newHopping(c), c,
		rec(1, "b", 1), rec(2, "a", 2),
		rec(12, "b", 4), // 10 is passed: all has come out, with this row, that came before the watermark
		rec(21, "b", 8), // 20: the window that ends comes out for good, both keys; of the open one b alone has changed since
		rec(22, "a", 16),
		rec(31, "a", 32), // 30: a and b in the windows of the rows since
	)
	want := "3 a@-20=2/0, 3 b@-20=5/0, 3 a@0=2/0, 3 b@0=5/0, " +
		"4 a@-20=2/1, 4 b@-20=5/1, " +
		"6 a@0=50/1, 6 b@0=13/1, 6 a@20=48/0, 6 b@20=8/0, " +
		"7 a@0=50/2, 7 b@0=13/2, 7 a@20=48/1, 7 b@20=8/1"
	if got := show(result.Ports[0]); got != want {
		t.Errorf("fired\n%s, want\n%s", got, want)
	}
}

func TestHoppingOutOfRange(t *testing.T) {
	for name, change := range map[string]func(c *window.HoppingConfig){
		"ten years by 1 ms": func(c *window.HoppingConfig) { c.SizeMs, c.SlideMs = 315_360_000_000, 1 },
		"no slide":          func(c *window.HoppingConfig) { c.SlideMs = 0 },
		"ttl":               func(c *window.HoppingConfig) { c.TTL = 1 },
		"negative early":    func(c *window.HoppingConfig) { c.EarlyMs = -1 },
		"top and aggregate": func(c *window.HoppingConfig) { c.Top = &window.Top{N: 1, Order: optest.Expr("value")} },
		"top of none":       func(c *window.HoppingConfig) { c.Aggs, c.Top = nil, &window.Top{Order: optest.Expr("value")} },
	} {
		c := hopping(time.Hour, time.Second, 0)
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), window.ErrConfig.Error()) {
			t.Errorf("%s: %v, want %v", name, err, window.ErrConfig)
		}
	}
}

func TestTopKeepsTheFirstRows(t *testing.T) {
	for _, c := range []struct {
		name       string
		n          int
		down, ties bool
		want       string
	}{
		{"largest", 2, true, false, "1:9 2:5"},
		{"with ties", 2, true, true, "1:9 2:5 2:5"},
		{"smallest", 2, false, false, "1:1 2:3"},
		{"more than there are", 9, true, false, "1:9 2:5 3:5 4:3 5:1 6:<null>"},
	} {
		config := hopping(time.Second, time.Second, 0)
		config.Aggs = nil
		config.Top = &window.Top{N: c.n, Order: optest.Expr("value"), Descending: c.down, Ties: c.ties, Columns: []int{1}, Out: []int{outSum}, RankSlot: outCount}
		records := []optest.Record{rec(1, "a", 3), rec(2, "a", 5), rec(3, "a", 9), rec(4, "a", 5), rec(5, "a", 1)}
		records = append(records, optest.Record{Time: 6, Slots: []pipeline.Value{pipeline.StringValue("a"), {}}})
		var got []string
		for _, r := range runOp(t, 0, newHopping(config), config, records...).Ports[0] {
			v := "<null>"
			if !r.Slots[outSum].IsNull() {
				v = fmt.Sprint(r.Slots[outSum].Int())
			}
			got = append(got, fmt.Sprintf("%d:%s", r.Slots[outCount].Int(), v))
		}
		if got := strings.Join(got, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestPlantedSecondFiringIsFound: what the engine repeats after a restart must fire nothing.
func TestPlantedSecondFiringIsFound(t *testing.T) {
	c := hopping(40*time.Millisecond, 10*time.Millisecond, 0)
	records := []optest.Record{rec(1, "a", 1), rec(12, "a", 2), rec(23, "a", 4)}
	for _, planted := range []bool{false, true} {
		config := optest.Config{Ports: 2, New: func() pipeline.Operator {
			op := window.NewHopping(c)
			if planted {
				op.PlantAgain()
			}
			return op
		}}
		want, err := optest.Run(config, records)
		if err != nil {
			t.Fatal(err)
		}
		config.Between = func(int) optest.Checkpoint { return optest.Restore }
		got, err := optest.Run(config, records)
		if found := err != nil || optest.Diff(want, got) != ""; found != planted {
			t.Errorf("planted %v, found %v (%v)", planted, found, err)
		}
	}
}

// TestHoppingCostDoesNotGrow: per key and slide, a window of 3,600 panes merges about as much as one of 8.
func TestHoppingCostDoesNotGrow(t *testing.T) {
	perSlide := func(size time.Duration) float64 {
		op := window.NewHopping(hopping(size, time.Second, 0))
		s := newStream(t, op, 3, 1)
		s.warm(2 * size)
		before, slides := op.Merges(), 2000
		for range 3 * slides {
			s.row()
		}
		return float64(op.Merges()-before) / float64(3*slides)
	}
	small, large := perSlide(8*time.Second), perSlide(time.Hour)
	if large > 10 || large > 1.5*small {
		t.Errorf("%.1f merges per key and slide of a window of 3,600 panes, %.1f of one of 8", large, small)
	}
	t.Logf("merges per key and slide: %.2f of 8 panes, %.2f of 3,600", small, large)
}
