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

func session(gap, lateness time.Duration, split bool) window.SessionConfig {
	return window.SessionConfig{Config: common(lateness), GapMs: gap.Milliseconds(), Split: split}
}

func newSession(c window.SessionConfig) func() pipeline.Operator {
	return func() pipeline.Operator { return window.NewSession(c) }
}

func TestSessionKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		set, answer string
		gap         time.Duration
		split       bool
	}{
		{"nab-traffic", "sessions_30m_newat_gap", 30 * time.Minute, true},
		{"nab-traffic", "sessions_30m_touchmerges", 30 * time.Minute, false},
		{"nab-keystroke-gaps", "sessions_10m_newat_gap", 10 * time.Minute, true},
		{"nab-keystroke-gaps", "sessions_10m_touchmerges", 10 * time.Minute, false},
	} {
		t.Run(c.set+"/"+c.answer, func(t *testing.T) {
			config := session(c.gap, 0, c.split)
			result := runOp(t, (4 * time.Hour).Milliseconds(), newSession(config), config, accepted(t, c.set)...)
			rows := slices.Clone(result.Ports[0])
			slices.SortStableFunc(rows, func(a, b pipeline.Row) int { // the answers are by key and start
				return cmp.Or(strings.Compare(a.Slots[outKey].Str, b.Slots[outKey].Str), cmp.Compare(a.Slots[outStart].Int(), b.Slots[outStart].Int()))
			})
			want := optest.Expected(t, c.set, c.answer)
			if len(rows) != len(want) || len(result.Ports[1]) > 0 {
				t.Fatalf("%d sessions, want %d; %d late rows", len(rows), len(want), len(result.Ports[1]))
			}
			for i, w := range want { // key, first, last, end, and as in other windows
				compareWindow(t, rows[i], []string{w[1], w[3], w[0], w[4], w[5], w[6], w[7], w[8]})
			}
		})
	}
}

// definedSessions runs Flink's rule: a window per row, merged with those it meets; late when the result is over.
func definedSessions(a window.Assigner, gap, delay, lateness int64, records []optest.Record) (all []firing, late int) {
	type content struct {
		window.Span
		key               string
		count, sum, fired int64
		done              bool // fired at its end
	}
	var open []*content
	watermark, timeMax := int64(math.MinInt64), int64(math.MinInt64)
	fire := func(pos int, c *content) {
		all = append(all, firing{uint64(pos), c.Start, c.key, c.count, c.sum, c.fired})
		c.fired++
		c.done = true
	}
	advance := func(pos int, to int64) {
		watermark = to
		var due []*content
		for _, c := range open {
			if c.End <= to && !c.done {
				due = append(due, c)
			}
		}
		slices.SortFunc(due, func(a, b *content) int { return cmp.Or(a.Span.Compare(b.Span), strings.Compare(a.key, b.key)) })
		for _, c := range due {
			fire(pos, c)
		}
		open = slices.DeleteFunc(open, func(c *content) bool { return c.End+lateness <= to })
	}
	for i, r := range records {
		n := &content{Span: window.Span{Start: r.Time, End: r.Time + gap}, key: r.Slots[0].Str, count: 1, sum: r.Slots[1].Int()}
		var met []*content
		for _, c := range open {
			if c.key == n.key && a.Meets(c.Span, window.Span{Start: r.Time, End: r.Time + gap}) {
				met = append(met, c)
				n.Span, n.count, n.sum, n.fired = window.Union(n.Span, c.Span), n.count+c.count, n.sum+c.sum, max(n.fired, c.fired)
			}
		}
		if watermark >= n.End+lateness {
			late++
			continue
		}
		open = append(slices.DeleteFunc(open, func(c *content) bool { return slices.Contains(met, c) }), n)
		if watermark >= n.End {
			fire(i+1, n)
		}
		if timeMax = max(timeMax, r.Time); timeMax-delay > watermark {
			advance(i+1, timeMax-delay)
		}
	}
	advance(len(records)+1, math.MaxInt64)
	return all, late
}

// sessionsDiffer compares with the definition; plant breaks the operator.
func sessionsDiffer(t *rapid.T, plant func(*window.Session)) string {
	lateness := rapid.SampledFrom([]int64{0, 0, 10, 60}).Draw(t, "lateness")
	c := session(time.Duration(rapid.Int64Range(1, 25).Draw(t, "gap"))*time.Millisecond, time.Duration(lateness)*time.Millisecond, rapid.Bool().Draw(t, "split"))
	records, delay := drawIntegerRecords(t), rapid.Int64Range(0, 30).Draw(t, "out of orderness")
	result, err := optest.Run(optest.Config{Ports: 2, OutOfOrdernessMs: delay, New: func() pipeline.Operator {
		op := window.NewSession(c)
		if plant != nil {
			plant(op)
		}
		return op
	}}, records)
	if err != nil {
		return err.Error()
	}
	want, late := definedSessions(window.AssignSession(c.GapMs, c.Split), c.GapMs, delay, lateness, records)
	if got := firings(result.Ports[0]); !slices.Equal(got, want) {
		return fmt.Sprintf("fired %v, want %v", got, want)
	}
	if result.Counters.Late != uint64(late) || len(result.Ports[1]) != late {
		return fmt.Sprintf("%d late, counted %d, want %d", len(result.Ports[1]), result.Counters.Late, late)
	}
	return ""
}

func TestSessionsAreTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if diff := sessionsDiffer(t, nil); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestPlantedUnmergedSessionsAreFound(t *testing.T) {
	for seed := range 200 {
		if rapid.Custom(func(t *rapid.T) string { return sessionsDiffer(t, (*window.Session).PlantUnmerged) }).Example(seed) != "" {
			return
		}
	}
	t.Error("sessions that stay beside the one that came of them are not found")
}

func TestLateRowJoinsSessions(t *testing.T) {
	c := session(10*time.Millisecond, 100*time.Millisecond, false)
	result := runOp(t, 0, newSession(c), c,
		rec(0, "a", 1), rec(5, "a", 2),
		rec(25, "a", 4),  // [0,15) fires
		rec(15, "a", 8),  // joins both: [0,35), open; what [0,15) emitted stays
		rec(50, "a", 16), // [0,35) fires with the next revision
		rec(41, "a", 32), // joins it with the open one across what has fired: 35 < 41, 45 < 50 is met on the right alone
		rec(33, "a", 64), // joins the two: [0,60)
		rec(90, "a", 128),
	)
	want := "3 a@0=3/0, 5 a@0=15/1, 8 a@0=127/2, 9 a@90=128/0"
	if got := show(result.Ports[0]); got != want {
		t.Errorf("fired %s, want %s", got, want)
	}
}

func TestSessionReplayEquality(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawn, records := drawConfig(t), drawRecords(t)
		c := window.SessionConfig{
			Config: window.Config{
				TTL: drawTTL(t, records),
				Key: drawn.Key, LatenessMs: drawn.LatenessMs, MaxKeys: drawn.MaxKeys, Aggs: drawn.Aggs, Width: drawn.Width, KeyOut: drawn.KeyOut,
				StartSlot: drawn.StartSlot, EndSlot: drawn.EndSlot, RevisionSlot: drawn.RevisionSlot, EarlyMs: rapid.SampledFrom([]int64{0, 0, 5}).Draw(t, "early"),
			},
			GapMs: rapid.Int64Range(1, 20).Draw(t, "gap"), Split: rapid.Bool().Draw(t, "split"),
		}
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		replayAnywhere(t, optest.Config{New: newSession(c), Ports: 2, Keyed: true, OutOfOrdernessMs: rapid.Int64Range(0, 30).Draw(t, "out of orderness")}, records, c.TTL > 0)
	})
}
