package exec

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/plan"
)

// tapped runs a graph with a tap on some edges and gives the rows that it told, in order, as text; and how many were dropped.
func tapped(t interface{ Fatal(...any) }, g *plan.Graph, entries []pipeline.Entry, block, rows int, read bool, names ...string) (lines []string, dropped uint64) {
	p, err := New(Options{
		Graph: g, Generation: 1, BatchRows: rows, Deliver: func(pipeline.TaskSnapshot) {},
		Read: func(after pipeline.Position) (pipeline.BlockReader, error) {
			return &memory{entries: entries, block: block}, nil
		},
		Sink: func(string) (pipeline.ResultSink, error) { return &collect{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	tap, err := p.Tap(names, false)
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	ran := make(chan error, 1)
	run := func() { ran <- p.Run(context.Background()) }
	if read {
		go run()
	} else {
		run()
	}
	for {
		r, err := tap.Next(context.Background())
		if errors.Is(err, ErrStopped) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := codec.AppendJSON(nil, []codec.Column{{Name: "t", Slot: slotTime}, {Name: "v", Slot: slotValue}}, -1, r.Slots)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprint(r.From, " ", r.At, " ", r.Time, " ", string(text)))
	}
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	return lines, tap.Dropped()
}

// TestATapShowsTheRowsInOrder: the same for any batches, tasks and instances, whether others read the output or not.
func TestATapShowsTheRowsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := journalOf(t)
		for _, edge := range []string{"a", "fa", "wa", "u"} {
			want, _ := tapped(t, oneTask(), entries, len(entries), 1000, true, edge)
			got, dropped := tapped(t, threeTasks(), entries, rapid.IntRange(1, 20).Draw(t, "block"), rapid.IntRange(1, 20).Draw(t, "rows"), true, edge)
			if dropped == 0 && fmt.Sprint(want) != fmt.Sprint(got) {
				t.Fatalf("%s: %v\n%v", edge, want, got)
			}
		}
		make := drawnWindows(t)
		for _, step := range keyedGraph(1, make).Steps {
			want, _ := tapped(t, keyedGraph(1, make), entries, len(entries), 1000, true, step.UID)
			got, dropped := tapped(t, keyedGraph(3, make), entries, 10, 10, true, step.UID)
			if dropped == 0 && fmt.Sprint(want) != fmt.Sprint(got) {
				t.Fatalf("%s in 3 instances: %v\n%v", step.UID, want, got)
			}
		}
	})
}

// TestATapNobodyReadsHoldsNothingUp: what finds no room is dropped and counted; a pipeline that waited would never end here.
func TestATapNobodyReadsHoldsNothingUp(t *testing.T) {
	var entries []pipeline.Entry
	for i := range 3 * tapRows {
		entries = append(entries, pipeline.Entry{Pos: pipeline.Position(i + 1), Kind: pipeline.EntryMessage, Source: "a", Payload: fmt.Appendf(nil, `{"t":%d,"v":1}`, i)})
	}
	lines, dropped := tapped(t, oneTask(), entries, 100, 100, false, "a")
	if len(lines) != tapRows || dropped != 2*tapRows {
		t.Errorf("%d rows told, %d dropped, want %d and %d", len(lines), dropped, tapRows, 2*tapRows)
	}
}

func TestTapsAreBoundedAndLeaveNothing(t *testing.T) {
	p, err := New(Options{Graph: oneTask(), Generation: 1, Deliver: func(pipeline.TaskSnapshot) {}, Sink: func(string) (pipeline.ResultSink, error) { return &collect{}, nil }})
	if err != nil {
		t.Fatal(err)
	}
	var taps []*Tap
	for range TapsMax {
		tap, err := p.Tap([]string{"fa", "u"}, true)
		if err != nil {
			t.Fatal(err)
		}
		taps = append(taps, tap)
	}
	if n := len(*p.tasks[0].watches.Load()); n != 4*TapsMax { // two steps, two sources
		t.Errorf("%d watches", n)
	}
	if _, err := p.Tap([]string{"fa"}, false); !errors.Is(err, ErrTaps) {
		t.Errorf("one more: %v", err)
	}
	for _, tap := range taps {
		tap.Close()
		tap.Close()
	}
	if p.tasks[0].watches.Load() != nil {
		t.Error("a watch is left")
	}
	if _, err := p.Tap([]string{"fa", "nothing"}, false); !errors.Is(err, ErrNoEdge) {
		t.Errorf("an edge that is not there: %v", err)
	}
}
