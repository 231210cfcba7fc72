package exec

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
)

// byValue gives the sources of a graph a watermark per value.
func byValue(g *plan.Graph, keys int, advance bool) *plan.Graph {
	for _, s := range g.Sources {
		s.Time.By, s.Time.KeysMax = []int{slotValue}, keys
		s.Idle = &plan.Idle{AfterNs: 20e6, Advance: advance}
	}
	return g
}

// keyModel is the rule of DESIGN.md, "Watermark per key", word by word.
type keyModel struct {
	clocks    map[int64][2]int64 // value → largest time, elapsed of the last record
	watermark int64
	timeMax   int64
	last      int64
	idle      bool
}

func (m *keyModel) lowest() {
	first := true
	low := int64(0)
	for _, c := range m.clocks {
		if first || c[0] < low {
			low, first = c[0], false
		}
	}
	if !first {
		m.watermark = max(m.watermark, low-5)
	}
}

func (m *keyModel) tick(elapsed, after int64, advance bool) {
	for {
		oldest, some := int64(0), false
		for _, c := range m.clocks {
			if !some || c[1] < oldest {
				oldest, some = c[1], true
			}
		}
		if !some || elapsed-oldest < after {
			break
		}
		for k, c := range m.clocks {
			if c[1] == oldest {
				delete(m.clocks, k)
			}
		}
		m.lowest()
	}
	if len(m.clocks) == 0 && m.last >= 0 && advance {
		m.idle = true
		m.watermark = max(m.watermark, m.timeMax-5+(elapsed-m.last)/1e6)
	}
}

func (m *keyModel) record(value, at, elapsed int64) {
	c, known := m.clocks[value]
	if !known || at > c[0] {
		c[0] = at
	}
	c[1] = elapsed
	m.clocks[value] = c
	if m.last < 0 || at > m.timeMax {
		m.timeMax = at
	}
	m.last, m.idle = elapsed, false
	m.lowest()
}

func TestWatermarkPerKeyAgainstTheRule(t *testing.T) {
	againstTheRule(t, func(*source) {})
}

func againstTheRule(t *testing.T, keep func(*source)) {
	rapid.Check(t, func(rt *rapid.T) {
		entries := journalOf(rt)
		advance := rapid.Bool().Draw(rt, "advance")
		s := newSource(byValue(oneTask(), 100, advance).Sources[0])
		keep(s)
		rows, marks, _ := splitRun(t, s, entries, rapid.IntRange(1, 50).Draw(rt, "rows"))
		m := &keyModel{clocks: map[int64][2]int64{}, watermark: pipeline.MinWatermark, last: -1}
		ri, mi := 0, 0
		stamp := pipeline.Stamp{Elapsed: -1}
		for i := range entries {
			e := &entries[i]
			if e.Stamp != stamp || i == 0 {
				stamp = e.Stamp
				m.tick(stamp.Elapsed, 20e6, advance)
			}
			for ri < len(rows) && rows[ri].Pos == e.Pos {
				m.record(rows[ri].Slots[slotValue].Int(), rows[ri].Time, e.Stamp.Elapsed)
				ri++
			}
			for mi < len(marks) && marks[mi].Pos <= e.Pos {
				mi++
			}
			got, idle := int64(pipeline.MinWatermark), false
			if mi > 0 {
				got, idle = marks[mi-1].Watermark, marks[mi-1].Idle
			}
			if got != m.watermark || idle != m.idle && m.last >= 0 {
				rt.Fatalf("behind position %d: watermark %d, idle %v; want %d, %v", e.Pos, got, idle, m.watermark, m.idle)
			}
		}
	})
}

// TestNoKeyIsLateBecauseOfAnother: devices whose clocks are far apart lose nothing in windows.
func TestNoKeyIsLateBecauseOfAnother(t *testing.T) {
	var entries []pipeline.Entry
	for i := range 60 {
		at := 1000 + int64(i)*10
		entries = append(entries,
			pipeline.Entry{Payload: fmt.Appendf(nil, `{"t":%d,"v":1}`, at+100_000), Stamp: pipeline.Stamp{Elapsed: int64(i) * 1e6}},
			pipeline.Entry{Payload: fmt.Appendf(nil, `{"t":%d,"v":2}`, at), Stamp: pipeline.Stamp{Elapsed: int64(i) * 1e6}})
	}
	entries[0], entries[1] = entries[1], entries[0] // the slow one is heard first
	for i := range entries {
		entries[i].Pos, entries[i].Kind, entries[i].Source = pipeline.Position(i+1), pipeline.EntryMessage, "a"
	}
	late := func(g *plan.Graph) (n int) {
		for _, l := range run(t, g, entries, 7, 7, nil)[DeadSink] {
			_ = l
			n++
		}
		return n
	}
	if n := late(byValue(oneTask(), 10, true)); n > 0 {
		t.Errorf("%d dead letters with a watermark per key", n)
	}
	if late(oneTask()) == 0 {
		t.Error("the journal has nothing that is late without it: the test shows nothing")
	}
}

func TestWatermarkPerKeyContinuesAfterARestore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := journalOf(t)
		keys, advance := rapid.SampledFrom([]int{2, 5, 100}).Draw(t, "keys"), rapid.Bool().Draw(t, "advance")
		graph := func() *plan.Graph { return byValue(oneTask(), keys, advance) }
		want := run(t, graph(), entries, len(entries), 1000, nil)
		got := run(t, byValue(threeTasks(), keys, advance), entries, rapid.IntRange(1, 20).Draw(t, "block"), rapid.IntRange(1, 20).Draw(t, "rows"), nil)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
		cut := entries[:rapid.IntRange(0, len(entries)).Draw(t, "crash")]
		_, saved := runWithBarriers(t, graph(), cut, 3, rapid.IntRange(1, 4).Draw(t, "every"), nil, func(id uint64) bool { return id%3 == 0 })
		if saved == nil {
			return
		}
		got, _ = runWithBarriers(t, graph(), entries, 5, 3, saved, func(uint64) bool { return false })
		for _, m := range saved.sinks {
			if d := cmp.Diff(append([]string{}, want[m.UID][m.Seq:]...), append([]string{}, got[m.UID]...)); d != "" {
				t.Fatalf("sink %s: %s", m.UID, d)
			}
		}
	})
}

// TestPlantedLossOfAKeysClockIsFound: a checkpoint without the clocks of keys does not restore to the same streams.
func TestPlantedLossOfAKeysClockIsFound(t *testing.T) {
	gen := rapid.Custom(func(t *rapid.T) []pipeline.Entry { return journalOf(t) })
	for seed := range 300 {
		entries := gen.Example(seed)
		want := run(nopFatal{}, byValue(oneTask(), 100, true), entries, len(entries), 1000, nil)
		saved := checkpointOf(byValue(oneTask(), 100, true), entries, len(entries)/2)
		for name, m := range saved.entries {
			for k := range m {
				if len(k[0]) > 0 && k[0][0] == keyClockEntry && name == "$source/a/source" {
					delete(m, k)
				}
			}
		}
		got := run(nopFatal{}, byValue(oneTask(), 100, true), entries, 3, 3, saved)
		for _, m := range saved.sinks {
			if !slices.Equal(want[m.UID][m.Seq:], got[m.UID]) {
				return
			}
		}
	}
	t.Fatal("lost clocks go unnoticed")
}

func TestKeysBeyondTheBoundAreDeadLetters(t *testing.T) {
	s := newSource(byValue(oneTask(), 2, false).Sources[0])
	entries := lineEntries(`{"t":100,"v":1}`, `{"t":110,"v":2}`, `{"t":120,"v":3}`, `{"t":130,"v":1}`, `{"t":140,"v":3}`)
	entries[4].Stamp.Elapsed = 20e6 // the others are idle: their places are free
	rows, marks, dead := splitRun(t, s, entries, 10)
	if len(rows) != 4 || len(dead) != 1 || dead[0].Pos != 3 || dead[0].Reason != "max_keys" || string(dead[0].Raw) != `{"t":120,"v":3}` {
		t.Fatalf("%d rows, dead %+v", len(rows), dead)
	}
	if last := marks[len(marks)-1].Watermark; last != 135 {
		t.Errorf("watermark %d, want that of key 3 alone", last)
	}
	if len(s.keys.clocks) != 1 || len(s.keys.heap) != 1 {
		t.Errorf("%d clocks are kept", len(s.keys.clocks))
	}
}

// TestNextDeadlineOfKeys: the agent journals a tick when the first key goes idle, if a window waits for it.
func TestNextDeadlineOfKeys(t *testing.T) {
	c := idleClock{clock: sourceClock{started: true, timeMax: 500, watermark: 95, lastElapsed: 7e6}, idle: &plan.Idle{AfterNs: 20e6}, time: &plan.Time{}, keys: 2, due: 21e6}
	if got := c.next(200); got != 21e6 {
		t.Errorf("due at %d", got)
	}
	if got := c.next(90); got != pipeline.NoDeadline {
		t.Errorf("nothing waits, due at %d", got)
	}
	c.keys = 1
	if got := c.next(200); got != pipeline.NoDeadline {
		t.Errorf("the last key of a source that holds: due at %d", got)
	}
}

func TestARecordOfAKnownKeyAllocatesNothing(t *testing.T) {
	k := newKeyClocks([]int{0}, 10)
	slots := []pipeline.Value{pipeline.StringValue("device-1")}
	at := int64(0)
	if got := testing.AllocsPerRun(100, func() {
		at++
		if refusal := k.record(slots, at, at); refusal != "" {
			t.Fatal(refusal)
		}
	}); got > 0 {
		t.Errorf("%v allocations", got)
	}
}

// TestClockStepsDoNotShow: the wall clock starts in 1970, is set, steps back; order, event time and idleness go by other things.
func TestClockStepsDoNotShow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := journalOf(t)
		want := run(t, oneTask(), entries, len(entries), 1000, nil)
		wall := int64(0)
		stepped := slices.Clone(entries)
		for i := range stepped {
			wall += rapid.SampledFrom([]int64{0, 1000, 1767225600000, -1767225600000, -3600000}).Draw(t, "step")
			stepped[i].Stamp.Wall, stepped[i].Stamp.Trusted = wall, rapid.Bool().Draw(t, "trusted")
		}
		if d := cmp.Diff(want, run(t, oneTask(), stepped, 7, 7, nil)); d != "" {
			t.Fatal(d)
		}
	})
}

// TestMaxAheadIsOffWhileTheClockIsNotTrusted: a gateway that boots in 1970 takes what comes; once its clock is right, what lies ahead is refused.
func TestMaxAheadIsOffWhileTheClockIsNotTrusted(t *testing.T) {
	g := oneTask().Sources[0]
	g.Time.MaxAheadMs = 1000
	s := newSource(g)
	entries := lineEntries(`{"t":5000,"v":1}`, `{"t":9000,"v":2}`, `{"t":9000,"v":3}`)
	entries[0].Stamp = pipeline.Stamp{Elapsed: 1, Wall: 10}
	entries[1].Stamp = pipeline.Stamp{Elapsed: 2, Wall: 7000, Trusted: true}
	entries[2].Stamp = pipeline.Stamp{Elapsed: 3, Wall: 8000, Trusted: true}
	rows, _, dead := splitRun(t, s, entries, 10)
	if len(rows) != 2 || rows[1].Pos != 3 || len(dead) != 1 || dead[0].Pos != 2 {
		t.Errorf("rows %v, dead %v", rows, dead)
	}
}
