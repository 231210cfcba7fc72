package join_test

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/join"
	"github.com/weirstream/weir/pipeline/optest"
)

func drawWindowed(t *rapid.T) join.WindowedConfig {
	c := join.WindowedConfig{Sides: sides(), Output: output(true), Type: rapid.SampledFrom([]join.Type{join.Inner, join.LeftOuter, join.Full}).Draw(t, "type")}
	switch rapid.IntRange(0, 3).Draw(t, "windows") {
	case 0:
		size := rapid.SampledFrom([]int64{1, 7, 20}).Draw(t, "size")
		c.Windows = join.Windows{SizeMs: size, SlideMs: size, OffsetMs: rapid.Int64Range(1-size, size-1).Draw(t, "offset")}
	case 1:
		slide := rapid.SampledFrom([]int64{1, 3, 5, 8, 12}).Draw(t, "slide") // 12: with gaps between the windows
		c.Windows = join.Windows{SizeMs: 10, SlideMs: slide, OffsetMs: rapid.Int64Range(1-slide, slide-1).Draw(t, "offset")}
	default:
		c.Windows = join.Windows{GapMs: rapid.SampledFrom([]int64{1, 4, 9}).Draw(t, "gap"), Touching: rapid.Bool().Draw(t, "touching")}
	}
	return c
}

// windowModel is a window with what it holds; a session's bounds may grow.
type windowModel struct {
	start, end int64
	key        string
	rows       [2][]*arrived
}

// text gives the rows of a window that fires at a position.
func (w *windowModel) text(typ join.Type, pos int) (rows []string) {
	line := func(a, b *arrived) {
		rows = append(rows, fmt.Sprintf("%d/%d/%d: %s at %d in [%d, %d)", pos, pipeline.After, w.end, pairText(a, b), w.end-1, w.start, w.end))
	}
	for side := range w.rows {
		slices.SortFunc(w.rows[side], (*arrived).order)
	}
	for side := range w.rows {
		if len(w.rows[1-side]) == 0 && keeps(typ, side) {
			for _, a := range w.rows[side] {
				line(a, nil)
			}
		}
	}
	for _, a := range w.rows[join.Left] {
		for _, b := range w.rows[join.Right] {
			line(a, b)
		}
	}
	return rows
}

// modelWindowed keeps every window with its rows, as the definition says.
func modelWindowed(c join.WindowedConfig, delay int64, records []optest.Record) (rows, late []string, dropped int) {
	w := c.Windows
	var open []*windowModel
	watermark, timeMax, begun := int64(pipeline.MinWatermark), int64(0), false
	pass := func(pos int, mark int64) {
		watermark = mark
		slices.SortFunc(open, func(a, b *windowModel) int {
			return cmp.Or(cmp.Compare(a.end, b.end), cmp.Compare(a.start, b.start), bytes.Compare([]byte(a.key), []byte(b.key)))
		})
		for len(open) > 0 && open[0].end <= watermark {
			rows = append(rows, open[0].text(c.Type, pos)...)
			open = open[1:]
		}
	}
	for n, r := range records {
		if r.Time == pipeline.NoTime {
			continue
		}
		a := arrival(n, r)
		place := func(start, end, time int64) string {
			return fmt.Sprintf("%d/%d/0: %s at %d in [%d, %d)", n+1, pipeline.During, pairText(a, nil), time, start, end)
		}
		in, lost := 0, 0
		for _, mine := range windowsOf(w, a, open) {
			in++
			switch {
			case mine.end <= watermark:
				late = append(late, place(mine.start, mine.end, a.time))
			case a.null && keeps(c.Type, a.side):
				rows = append(rows, place(mine.start, mine.end, mine.end-1))
			case a.null:
				lost = 1
			default:
				mine.rows[a.side] = append(mine.rows[a.side], a)
				open = slices.DeleteFunc(open, func(o *windowModel) bool { // those that a session takes in, or the window itself
					same := o.key == mine.key && o.start >= mine.start && o.end <= mine.end && (w.GapMs > 0 || o.start == mine.start)
					if same && o != mine {
						for side := range o.rows {
							mine.rows[side] = append(mine.rows[side], o.rows[side]...)
						}
					}
					return same
				})
				open = append(open, mine)
			}
		}
		if dropped += lost; in == 0 {
			dropped++
		}
		if !begun || a.time > timeMax {
			timeMax, begun = a.time, true
			if m := timeMax - delay; m > watermark {
				pass(n+1, m)
			}
		}
	}
	pass(len(records)+1, pipeline.MaxWatermark)
	return rows, late, dropped
}

// windowsOf gives the windows that a row lies in: those that are open, or new ones. A session is widened.
func windowsOf(w join.Windows, a *arrived, open []*windowModel) (mine []*windowModel) {
	if w.GapMs > 0 {
		s := &windowModel{start: a.time, end: a.time + w.GapMs, key: a.key}
		for grown := true; grown && !a.null; {
			grown = false
			for _, o := range open {
				near := o.start < s.end && s.start < o.end || w.Touching && (o.start == s.end || s.start == o.end)
				if o.key == a.key && near && (o.start < s.start || o.end > s.end) {
					s.start, s.end, grown = min(s.start, o.start), max(s.end, o.end), true
				}
			}
		}
		return []*windowModel{s}
	}
	for start := w.OffsetMs - 400*w.SlideMs; start <= a.time; start += w.SlideMs {
		if a.time >= start+w.SizeMs {
			continue
		}
		i := slices.IndexFunc(open, func(o *windowModel) bool { return o.key == a.key && o.start == start })
		if i >= 0 && !a.null {
			mine = append(mine, open[i])
			continue
		}
		mine = append(mine, &windowModel{start: start, end: start + w.SizeMs, key: a.key})
	}
	return mine
}

func windowedAgainstModel(c join.WindowedConfig, delay int64, records []optest.Record, plant func(*join.Windowed)) string {
	result, err := optest.Run(optest.Config{Ports: 2, OutOfOrdernessMs: delay, New: func() pipeline.Operator {
		op := join.NewWindowed(c)
		plant(op)
		return op
	}}, records)
	if err != nil {
		return err.Error()
	}
	rows, late, dropped := modelWindowed(c, delay, records)
	if got, want := showAll(result.Ports[0]), strings.Join(rows, "\n"); got != want {
		return fmt.Sprintf("joined\n%s\nwant\n%s", got, want)
	}
	if got, want := showAll(result.Ports[join.LatePort]), strings.Join(late, "\n"); got != want || int(result.Counters.Late) != len(late) {
		return fmt.Sprintf("late, counted %d,\n%s\nwant\n%s", result.Counters.Late, got, want)
	}
	if int(result.Counters.Dropped) != dropped {
		return fmt.Sprintf("dropped %d, want %d", result.Counters.Dropped, dropped)
	}
	return ""
}

func TestWindowedAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawWindowed(t)
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		if diff := windowedAgainstModel(c, rapid.Int64Range(0, 15).Draw(t, "delay"), drawRecords(t, 12), func(*join.Windowed) {}); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestWindowedReplays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawWindowed(t)
		c.MaxKeys = rapid.SampledFrom([]int{0, 0, 5}).Draw(t, "max_keys")
		optest.ReplayEquality(t, optest.Config{
			Ports: 2, OutOfOrdernessMs: rapid.Int64Range(0, 15).Draw(t, "delay"), New: func() pipeline.Operator { return join.NewWindowed(c) },
		}, drawRecords(t, 12))
	})
}

func TestPlantedWindowedFaultsAreFound(t *testing.T) {
	t.Run("rows unsorted", func(t *testing.T) {
		for seed := range 500 {
			if rapid.Custom(func(t *rapid.T) string {
				return windowedAgainstModel(drawWindowed(t), rapid.Int64Range(0, 15).Draw(t, "delay"), drawRecords(t, 12), (*join.Windowed).PlantUnsorted)
			}).Example(seed) != "" {
				return
			}
		}
		t.Error("not found")
	})
	t.Run("next window not restored", func(t *testing.T) {
		c := join.WindowedConfig{Sides: sides(), Output: output(true), Windows: join.Windows{SizeMs: 10, SlideMs: 5}}
		var results [2]optest.Result
		for i, between := range []func(int) optest.Checkpoint{nil, func(int) optest.Checkpoint { return optest.Restore }} {
			result, err := optest.Run(optest.Config{Ports: 2, Between: between, New: func() pipeline.Operator {
				op := join.NewWindowed(c)
				op.PlantForgottenStarts()
				return op
			}}, []optest.Record{rec(join.Left, 7, "a", 1), rec(join.Right, 7, "a", 2), rec(join.Right, 11, "b", 3), rec(join.Right, 30, "b", 4)})
			if err != nil {
				if i == 1 {
					return // the harness saw it
				}
				t.Fatal(err)
			}
			results[i] = result
		}
		if optest.Diff(results[0], results[1]) == "" {
			t.Error("not found")
		}
	})
}
