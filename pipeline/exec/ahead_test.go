package exec

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
)

// batchesOf cuts entries into batches of that many.
func batchesOf(entries []pipeline.Entry, rows int) (all []*Input) {
	for len(entries) > 0 {
		n := min(rows, len(entries))
		all = append(all, &Input{
			Number: uint64(len(all) + 1), First: entries[0].Pos, Last: entries[n-1].Pos, Entries: entries[:n], Ticks: cutTicks(entries[:n], nil),
		})
		entries = entries[n:]
	}
	return all
}

// checkpointAhead runs a task over entries that wait, with a barrier behind them, and gives what it froze there.
func checkpointAhead(n int, make func() *keyedWindows, entries []pipeline.Entry, rows int, f regionFault) *checkpoint {
	g := keyedGraph(n, make)
	c := &coordinator{tasks: 1, open: map[uint64][]pipeline.TaskSnapshot{}, abort: func(uint64) bool { return false }}
	p, err := New(Options{
		Graph: g, Generation: 1, Deliver: c.deliver, fault: f,
		Sink: func(string) (pipeline.ResultSink, error) { return &collect{}, nil },
	})
	if err != nil {
		panic(err)
	}
	batches := batchesOf(entries, rows)
	in := chanOf(batches, &pipeline.Barrier{ID: 1, Position: entries[len(entries)-1].Pos})
	p.tasks[0].ahead.in = in
	if err := p.tasks[0].run(context.Background()); err != nil {
		panic(err)
	}
	return c.current
}

// chanOf is a reader that has sent all it will.
func chanOf(batches []*Input, b *pipeline.Barrier) <-chan envelope {
	in := make(chan envelope, len(batches)+1)
	for i := 0; i < len(batches); i += 2 {
		in <- envelope{inputs: batches[i:min(i+2, len(batches))]}
	}
	in <- envelope{barrier: b}
	close(in)
	return in
}

// lostBehind tells whether a run that goes on from the barrier behind the first half of the entries emits another stream than a whole run.
func lostBehind(f regionFault) bool {
	found := false
	for seed := range 60 {
		rapid.Custom(func(t *rapid.T) bool {
			entries := journalOf(t)
			if len(entries) < 2 {
				return true
			}
			make := func() *keyedWindows { return &keyedWindows{} }
			want := runKeyed(nopFatal{}, keyedGraph(1, make), entries, 10, 10, regionFault{})
			saved := checkpointAhead(2, make, entries[:len(entries)/2], 3, f)
			got, _ := runFaulty(t, keyedGraph(2, make), entries, 3, 3, saved, func(uint64) bool { return false }, regionFault{eager: true})
			for _, m := range saved.sinks {
				rest := want[m.UID][min(int(m.Seq), len(want[m.UID])):]
				if gocmp.Diff(append([]string{}, rest...), append([]string{}, got[m.UID]...)) != "" {
					found = true
				}
			}
			return true
		}).Example(seed)
		if found {
			return true
		}
	}
	return false
}

// TestABarrierFlowsBehindTheBatchesAhead: what is decoded ahead of a barrier is in its snapshot, what is behind it is not.
func TestABarrierFlowsBehindTheBatchesAhead(t *testing.T) {
	if lostBehind(regionFault{eager: true}) {
		t.Fatal("a run that goes on from a barrier emits another stream")
	}
	if !lostBehind(regionFault{eager: true, overtaking: true}) {
		t.Error("a barrier that overtakes batches goes unnoticed")
	}
}

func TestPlantedFaultBatchesOutOfOrderIsFound(t *testing.T) {
	if differs(regionFault{eager: true}) {
		t.Fatal("batches decoded ahead differ from those that are not")
	}
	if !differs(regionFault{eager: true, unordered: true}) {
		t.Error("batches that are worked on in another order go unnoticed")
	}
}

// TestTheCellsGoRoundForEver: the count of what was lent passes what an int of 32 bits holds, as it does within weeks.
func TestTheCellsGoRoundForEver(t *testing.T) {
	entries := numbered(400)
	g := keyedGraph(2, func() *keyedWindows { return &keyedWindows{} })
	p, err := New(Options{
		Graph: g, Generation: 1, Deliver: func(pipeline.TaskSnapshot) {}, fault: regionFault{eager: true},
		Sink: func(string) (pipeline.ResultSink, error) { return &collect{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	a := p.tasks[0].ahead
	a.in = chanOf(batchesOf(entries, 10), &pipeline.Barrier{ID: 1, Position: entries[len(entries)-1].Pos})
	a.begun, a.given = math.MaxInt32-5, math.MaxInt32-5
	if err := p.tasks[0].run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if a.given <= math.MaxInt32 || a.begun != a.given {
		t.Errorf("lent up to %d, given back up to %d: nothing was decoded ahead", a.begun, a.given)
	}
}

// moody decodes as ever, but panics at one payload.
type moody struct {
	codec.Decoder
	at []byte
}

func (m moody) Decode(payload []byte, slots []pipeline.Value) error {
	if string(payload) == string(m.at) {
		panic("not this one")
	}
	return m.Decoder.Decode(payload, slots)
}

func numbered(n int) (entries []pipeline.Entry) {
	for i := range n {
		entries = append(entries, pipeline.Entry{
			Pos: pipeline.Position(i + 1), Source: "a", Kind: pipeline.EntryMessage, Stamp: pipeline.Stamp{Elapsed: int64(i) * 1e6},
			Payload: fmt.Appendf(nil, `{"t":%d,"v":%d}`, i, i),
		})
	}
	return entries
}

// TestADecoderThatPanicsAheadFailsItsOwnBatch: what comes before has left, nothing of the batch has, and the record is named. No goroutine is left.
func TestADecoderThatPanicsAheadFailsItsOwnBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		entries := numbered(1000)
		g := keyedGraph(3, func() *keyedWindows { return &keyedWindows{} })
		g.Sources[0].Decoders[0].New = func() codec.Decoder { return moody{testDecoder(), entries[699].Payload} }
		p, err := New(Options{
			Graph: g, Generation: 1, Deliver: func(pipeline.TaskSnapshot) {}, BatchRows: 50, fault: regionFault{eager: true},
			Read: func(pipeline.Position) (pipeline.BlockReader, error) {
				return &memory{entries: entries, block: 1000}, nil
			},
			Sink: func(string) (pipeline.ResultSink, error) { return &collect{}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		err = p.Run(t.Context())
		var poison *PoisonError
		if !errors.As(err, &poison) || poison.Poison != (Poison{Step: "$source/a", Position: 700}) {
			t.Errorf("got %v", err)
		}
		if p.Handled() != 650 {
			t.Errorf("handled up to %d, want 650", p.Handled())
		}
	})
}

// spring is a journal that always has more; it counts what was taken.
type spring struct {
	taken atomic.Int64
	block int
}

func (e *spring) Next(ctx context.Context) (*pipeline.Block, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	first := int(e.taken.Add(int64(e.block))) - e.block
	entries := numbered(e.block)
	for i := range entries {
		entries[i].Pos += pipeline.Position(first)
	}
	return &pipeline.Block{Entries: entries, First: entries[0].Pos, Last: entries[len(entries)-1].Pos}, nil
}
func (e *spring) Close() error { return nil }

// closed is a sink that takes nothing until its context ends.
type closed struct{ collect }

func (closed) Emit(ctx context.Context, _ []pipeline.Result) error { <-ctx.Done(); return ctx.Err() }

// TestWhatIsAheadIsBounded: a sink that takes nothing stops the journal after a few blocks, whatever n, and all ends with the context.
func TestWhatIsAheadIsBounded(t *testing.T) {
	for _, n := range []int{1, 3} {
		for _, rows := range []int{10, 200} {
			synctest.Test(t, func(t *testing.T) {
				source := &spring{block: 200}
				p, err := New(Options{
					Graph: keyedGraph(n, func() *keyedWindows { return &keyedWindows{} }), Generation: 1, Deliver: func(pipeline.TaskSnapshot) {}, BatchRows: rows,
					Read: func(pipeline.Position) (pipeline.BlockReader, error) { return source, nil }, fault: regionFault{eager: true},
					Sink: func(string) (pipeline.ResultSink, error) { return &closed{}, nil },
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- p.Run(ctx) }()
				synctest.Wait()
				// Batches: one in work, aheadMax + 1 in the queue. Blocks: the rest of one in the queue, two in the channel, one that the reader holds, one that
				// waits for the reader, one that fetch holds.
				if most := int64((aheadMax+2)*rows + 6*source.block); source.taken.Load() > most {
					t.Errorf("n %d, batches of %d: %d records were taken, want %d at most", n, rows, source.taken.Load(), most)
				}
				stop()
				if err := <-ended; err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
					t.Errorf("got %v", err)
				}
			})
		}
	}
}
