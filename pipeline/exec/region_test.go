package exec

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
)

func TestRegionsOfTheTestGraph(t *testing.T) {
	g := keyedGraph(3, func() *keyedWindows { return &keyedWindows{} })
	var got []string
	for _, r := range g.Tasks[0].Regions {
		got = append(got, fmt.Sprint(r.Steps, r.Key))
	}
	want := []string{"[0 2 3 4 6] [[1]]", "[5] [[0]]", "[7] [[1] [1]]"}
	if d := gocmp.Diff(want, got); d != "" {
		t.Fatal(d)
	}
}

// drawnWindows draws how the keyed steps are set up.
func drawnWindows(t *rapid.T) func() *keyedWindows {
	maxKeys := rapid.SampledFrom([]int{0, 1, 3, 8, 30, 1000}).Draw(t, "max keys")
	ttl := rapid.SampledFrom([]int64{0, 0, 4e6, 30e6}).Draw(t, "ttl")
	return func() *keyedWindows { return &keyedWindows{maxKeys: maxKeys, ttl: ttl} }
}

var drawnN = rapid.SampledFrom([]int{1, 2, 3, 5, 8, 128})

// runKeyed is run with faults and with as much dividing as there can be.
func runKeyed(t interface{ Fatal(...any) }, g *plan.Graph, entries []pipeline.Entry, block, rows int, f regionFault) outcome {
	sinks := map[string]*collect{}
	p, err := New(Options{
		Graph: g, Generation: 1, BatchRows: rows, Deliver: func(pipeline.TaskSnapshot) {}, fault: f,
		Read: func(after pipeline.Position) (pipeline.BlockReader, error) {
			return &memory{entries: entries[after:], block: block}, nil
		},
		Sink: func(uid string) (pipeline.ResultSink, error) { sinks[uid] = &collect{}; return sinks[uid], nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	o := outcome{}
	o.add(sinks)
	o["ledger"] = nil
	for _, s := range p.Ledger().Steps {
		o["ledger"] = append(o["ledger"], fmt.Sprint(s))
	}
	slices.Sort(o["ledger"])
	return o
}

func TestRule30_ResultsDoNotDependOnInstances(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries, make := journalOf(t), drawnWindows(t)
		want := runKeyed(t, keyedGraph(1, make), entries, len(entries), 1000, regionFault{})
		var tasks []plan.Task
		if rapid.Bool().Draw(t, "three tasks") {
			tasks = keyedTasks()
		}
		f := regionFault{eager: rapid.Bool().Draw(t, "eager"), together: rapid.Bool().Draw(t, "together")}
		n := drawnN.Draw(t, "instances")
		got := runKeyed(t, keyedGraph(n, make, tasks...), entries, rapid.IntRange(1, 120).Draw(t, "block"), rapid.IntRange(1, 120).Draw(t, "rows"), f)
		if d := gocmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

// TestRescaleContinuesTheStreams: a run in n instances is cut off, another goes on in m from whatever checkpoint there is.
func TestRescaleContinuesTheStreams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { rescale(t, regionFault{}) })
}

func rescale(t *rapid.T, f regionFault) {
	entries, make := journalOf(t), drawnWindows(t)
	want := runKeyed(t, keyedGraph(1, make), entries, len(entries), 1000, regionFault{})
	aborted := rapid.Uint64Range(0, 3).Draw(t, "aborted")
	block := rapid.IntRange(1, 10).Draw(t, "block")
	every := rapid.IntRange(1, 4).Draw(t, "every")
	var saved *checkpoint
	for range rapid.IntRange(1, 3).Draw(t, "runs before") {
		cut := entries[:rapid.IntRange(0, len(entries)).Draw(t, "crash")]
		if saved != nil && len(cut) < int(saved.position) {
			continue
		}
		var tasks []plan.Task
		if rapid.Bool().Draw(t, "three tasks") {
			tasks = keyedTasks()
		}
		_, s := runWithBarriers(t, keyedGraph(drawnN.Draw(t, "before"), make, tasks...), cut, block, every, saved, func(id uint64) bool { return id%4 == aborted })
		saved = cmp.Or(s, saved)
	}
	if saved == nil {
		return
	}
	got, _ := runFaulty(t, keyedGraph(drawnN.Draw(t, "after"), make), entries, block, every, saved, func(uint64) bool { return false }, f)
	for uid, lines := range want {
		from := 0
		if uid == "ledger" {
			continue
		}
		for _, m := range saved.sinks {
			if m.UID == uid {
				from = int(m.Seq)
			}
		}
		if d := gocmp.Diff(append([]string{}, lines[from:]...), append([]string{}, got[uid]...)); d != "" {
			t.Fatalf("sink %s behind %d, checkpoint at %d: %s", uid, from, saved.position, d)
		}
	}
}

// differs tells whether a fault shows within some hundred random journals.
func differs(f regionFault) bool {
	type drawn struct {
		entries []pipeline.Entry
		make    func() *keyedWindows
	}
	gen := rapid.Custom(func(t *rapid.T) drawn { return drawn{journalOf(t), drawnWindows(t)} })
	for seed := range 200 {
		d := gen.Example(seed)
		want := runKeyed(nopFatal{}, keyedGraph(1, d.make), d.entries, 10, 10, regionFault{})
		if gocmp.Diff(want, runKeyed(nopFatal{}, keyedGraph(3, d.make), d.entries, 7, 7, f)) != "" {
			return true
		}
	}
	return false
}

func TestPlantedFaultsOfTheGatherAreFound(t *testing.T) {
	if differs(regionFault{}) {
		t.Fatal("a sound region differs from a single instance")
	}
	if !differs(regionFault{byArrival: true}) {
		t.Error("a merge by arrival goes unnoticed")
	}
	if !differs(regionFault{tieless: true}) {
		t.Error("a merge that ignores the ties goes unnoticed")
	}
	if !differs(regionFault{unlimited: true}) {
		t.Error("limits counted per instance go unnoticed")
	}
}

// TestPlantedFaultWrongKeeperIsFound: state that is dealt out to other instances than the rows must show.
func TestPlantedFaultWrongKeeperIsFound(t *testing.T) {
	for seed := range 200 {
		failed := false
		rapid.Custom(func(t *rapid.T) bool {
			defer func() { failed = recover() != nil }()
			entries := journalOf(t)
			make := func() *keyedWindows { return &keyedWindows{} }
			want := runKeyed(nopFatal{}, keyedGraph(1, make), entries, 10, 10, regionFault{})
			_, saved := runWithBarriers(t, keyedGraph(2, make), entries[:len(entries)/2], 3, 1, nil, func(uint64) bool { return false })
			if saved == nil {
				return true
			}
			got, _ := runFaulty(t, keyedGraph(3, make), entries, 3, 3, saved, func(uint64) bool { return false }, regionFault{wrongKeeper: true})
			for _, m := range saved.sinks {
				if !slices.Equal(want[m.UID][m.Seq:], got[m.UID]) {
					panic("found")
				}
			}
			return true
		}).Example(seed)
		if failed {
			return
		}
	}
	t.Fatal("not found")
}

// TestATimerWithoutAKeyFailsTheRegion: what cannot be put in order is not emitted.
func TestATimerWithoutAKeyFailsTheRegion(t *testing.T) {
	g := keyedGraph(2, func() *keyedWindows { return &keyedWindows{nameless: true} })
	entries := []pipeline.Entry{{Pos: 1, Source: "a", Kind: pipeline.EntryMessage, Payload: []byte(`{"t":1,"v":1}`)}}
	if err := runError(t, g, entries); err == nil || !strings.Contains(err.Error(), "step k1") || !strings.Contains(err.Error(), "SetTimer") {
		t.Errorf("got %v", err)
	}
}

// allergicKeyed panics at one value.
type allergicKeyed struct{ keyedWindows }

func (e *allergicKeyed) Process(in int, r *pipeline.Row, out *pipeline.Out) {
	if r.Slots[slotValue].Num == 13 {
		panic("value 13")
	}
	e.keyedWindows.Process(in, r, out)
}

// TestAPanicInAnInstanceFailsTheRegion, names step and position, and leaves no goroutine behind.
func TestAPanicInAnInstanceFailsTheRegion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := keyedGraph(4, func() *keyedWindows { return &keyedWindows{} })
		g.Steps[4].New = func() pipeline.Operator { return &allergicKeyed{keyedWindows{slot: slotValue}} }
		var entries []pipeline.Entry
		for i := range 200 {
			entries = append(entries, pipeline.Entry{
				Pos: pipeline.Position(i + 1), Source: "a", Kind: pipeline.EntryMessage, Payload: fmt.Appendf(nil, `{"t":%d,"v":%d}`, i, i%40+1),
			})
		}
		err := runError(t, g, entries)
		if err == nil || !strings.Contains(err.Error(), "step k2: operator panic at position 13: value 13") {
			t.Errorf("got %v", err)
		}
	})
}

// TestPoisonInARegion: a panic at a row names its record, and the step goes on without it, the same with every n.
func TestPoisonInARegion(t *testing.T) {
	var entries []pipeline.Entry
	for i := range 100 {
		entries = append(entries, pipeline.Entry{
			Pos: pipeline.Position(i + 1), Source: "a", Kind: pipeline.EntryMessage, Stamp: pipeline.Stamp{Elapsed: int64(i) * 1e6},
			Payload: fmt.Appendf(nil, `{"t":%d,"v":%d}`, i, i%40+1),
		})
	}
	want := map[string][]string{}
	for _, n := range []int{1, 4} {
		g := keyedGraph(n, func() *keyedWindows { return &keyedWindows{} })
		g.Steps[2].New = func() pipeline.Operator { return &allergicKeyed{keyedWindows{slot: slotValue}} }
		var skip []Poison
		var err error
		for len(skip) < 10 {
			sinks := map[string]*collect{}
			p, failed := New(Options{
				Graph: g, Generation: 1, Deliver: func(pipeline.TaskSnapshot) {}, Skip: skip, fault: regionFault{eager: true},
				Read: func(pipeline.Position) (pipeline.BlockReader, error) {
					return &memory{entries: entries, block: 100}, nil
				},
				Sink: func(uid string) (pipeline.ResultSink, error) { sinks[uid] = &collect{}; return sinks[uid], nil },
			})
			if failed != nil {
				t.Fatal(failed)
			}
			err = p.Run(t.Context())
			var poison *PoisonError
			if !errors.As(err, &poison) {
				for uid, c := range sinks {
					if n == 1 {
						want[uid] = c.lines
					} else if d := gocmp.Diff(want[uid], c.lines); d != "" {
						t.Errorf("sink %s: %s", uid, d)
					}
				}
				break
			}
			skip = append(skip, poison.Poison)
		}
		if err != nil || len(skip) != 3 || skip[0] != (Poison{Step: "k1", Position: 13}) {
			t.Errorf("%d instances: %v, skipped %v", n, err, skip)
		}
	}
	if len(want[DeadSink]) < 3 {
		t.Errorf("dead letters %v", want[DeadSink])
	}
}

func runError(t *testing.T, g *plan.Graph, entries []pipeline.Entry) error {
	p, err := New(Options{
		Graph: g, Generation: 1, Deliver: func(pipeline.TaskSnapshot) {}, fault: regionFault{eager: true},
		Read: func(pipeline.Position) (pipeline.BlockReader, error) {
			return &memory{entries: entries, block: 100}, nil
		},
		Sink: func(string) (pipeline.ResultSink, error) { return &collect{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.Run(t.Context())
}

// TestASkewedKeyIsWorkedOn: all rows of one key, and nearly all; nothing is lost and the order is kept.
func TestASkewedKeyIsWorkedOn(t *testing.T) {
	var entries []pipeline.Entry
	for i := range 3000 {
		v := 7
		if i%100 == 0 {
			v = i % 31
		}
		entries = append(entries, pipeline.Entry{
			Pos: pipeline.Position(i + 1), Stamp: pipeline.Stamp{Elapsed: int64(i/20) * 1e6}, Source: "a", Kind: pipeline.EntryMessage,
			Payload: fmt.Appendf(nil, `{"t":%d,"v":%d}`, i/5, v),
		})
	}
	make := func() *keyedWindows { return &keyedWindows{maxKeys: 1000} }
	want := runKeyed(t, keyedGraph(1, make), entries, 512, 512, regionFault{})
	for _, n := range []int{2, 8} {
		if d := gocmp.Diff(want, runKeyed(t, keyedGraph(n, make), entries, 512, 512, regionFault{})); d != "" {
			t.Fatalf("%d instances: %s", n, d)
		}
	}
	if len(want["s0"]) == 0 || !bytes.Contains([]byte(want["s0"][0]), []byte(`"v":`)) {
		t.Fatal("no results")
	}
}
