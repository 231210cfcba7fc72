package window_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/pipeline/window"
)

// remembered keeps the tables that an operator asks for.
type remembered struct{ all []*state.Table }

func (r *remembered) Table(spec state.Spec) (*state.Table, error) {
	t := state.New(spec)
	r.all = append(r.all, t)
	return t, nil
}

// cutAct is what reaches a window of processing time: a stamp, a row with it, or a row that a timer before made on the way to the next stamp.
type cutAct struct {
	kind    string
	elapsed int64 // ns
	wall    int64 // ms
	key     string
}

// runCut does what the engine's step does (exec/step.go). cut: a batch ends behind every act.
func runCut(t interface{ Fatal(...any) }, op pipeline.Operator, acts []cutAct, cut bool) string {
	tables := &remembered{}
	if err := op.Open(tables); err != nil {
		t.Fatal(err)
	}
	if err := op.Restored(); err != nil {
		t.Fatal(err)
	}
	out := pipeline.NewOut("", 2)
	elapsed := func(now pipeline.Stamp) {
		if due, _ := op.Timers(); due <= now.Elapsed {
			out.At = pipeline.At{Pos: out.At.Pos, Phase: pipeline.Before}
			op.Elapsed(now, out)
		}
	}
	for i, a := range acts {
		pos := pipeline.Position(i + 1)
		r := rec(pipeline.NoTime, a.key, 1)
		row := &pipeline.Row{At: pipeline.At{Pos: pos, Phase: pipeline.During}, Time: r.Time, Slots: r.Slots}
		switch a.kind {
		case "stamp":
			out.At.Pos, out.Now = pos, pipeline.Stamp{Elapsed: a.elapsed, Wall: a.wall}
			op.(pipeline.Clocked).Tick(out.Now)
			elapsed(out.Now)
			for _, table := range tables.all {
				table.SetNow(a.elapsed)
			}
		case "before":
			row.Phase, row.Deadline = pipeline.Before, a.elapsed
			out.At.Pos = pos
			elapsed(pipeline.Stamp{Elapsed: a.elapsed - 1, Wall: out.Now.Wall})
			fallthrough
		default:
			out.At = row.At
			op.Process(0, row, out)
		}
		if cut {
			op.(pipeline.Aging).Aged(out)
		}
	}
	op.(pipeline.Aging).Aged(out)
	text := fmt.Sprint(show(out.Ports[0]), "; ", len(out.Ports[1]), " late; ", out.Counters, "; ", len(out.Dead), " dead")
	for _, r := range out.Ports[0] {
		text += fmt.Sprint(" ", r.At)
	}
	elapsedDue, _ := op.Timers()
	text += fmt.Sprint("; due ", elapsedDue)
	for _, table := range tables.all {
		table.Range(func(key, sub, val []byte) bool {
			text += fmt.Sprintf("; %s %x=%x", table.Spec().Name, key, val)
			return true
		})
	}
	return text
}

// cutCase is a window of processing time with a TTL and what reaches it.
type cutCase struct {
	make func() *window.Processing
	acts []cutAct
}

func drawCutCase(t *rapid.T) cutCase {
	ttl := rapid.SampledFrom([]int64{1e6, 5e6, 12e6}).Draw(t, "ttl")
	maxKeys := rapid.SampledFrom([]int{0, 1, 2}).Draw(t, "max keys")
	s := session(15*time.Millisecond, 0, rapid.Bool().Draw(t, "split"))
	s.TTL, s.MaxKeys, s.EarlyMs = ttl, maxKeys, rapid.SampledFrom([]int64{0, 3}).Draw(t, "early")
	w := tumbling(10*time.Millisecond, 0)
	w.TTL, w.MaxKeys = ttl, maxKeys
	op := newSession(s)
	if rapid.Bool().Draw(t, "tumbling") {
		op = newTumbling(w)
	}
	now, wall := int64(0), int64(1_000_000)
	acts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) cutAct {
		a := cutAct{kind: rapid.SampledFrom([]string{"stamp", "stamp", "row", "before"}).Draw(t, "kind"), key: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "key")}
		if a.kind != "row" {
			ran := rapid.SampledFrom([]int64{1, 2e6, 5e6, 7_000_001, 20e6}).Draw(t, "ran")
			now += ran
			wall += ran/1e6 + rapid.SampledFrom([]int64{0, 0, 0, 1, -1, -25, 300}).Draw(t, "step")
		}
		a.elapsed, a.wall = now, wall
		return a
	}), 1, 40).Draw(t, "acts")
	return cutCase{
		make: func() *window.Processing { return window.NewProcessing(op(), 2) },
		acts: append([]cutAct{{kind: "stamp", wall: wall}}, acts...),
	}
}

// TestProcessingTimeWithTTLDoesNotDependOnCuts: what went by its TTL has no say in the clock, whether or not a batch has ended since and found it out.
func TestProcessingTimeWithTTLDoesNotDependOnCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCutCase(t)
		if whole, cut := runCut(t, c.make(), c.acts, false), runCut(t, c.make(), c.acts, true); whole != cut {
			t.Fatalf("one batch:\n%s\na batch for each:\n%s", whole, cut)
		}
	})
}

func TestPlantedTimerOfNothingIsFound(t *testing.T) {
	gen := rapid.Custom(drawCutCase)
	for seed := range 500 {
		c := gen.Example(seed)
		whole, cut := c.make(), c.make()
		whole.PlantUnasked()
		cut.PlantUnasked()
		if runCut(t, whole, c.acts, false) != runCut(t, cut, c.acts, true) {
			return
		}
	}
	t.Error("the results are the same wherever batches end")
}
