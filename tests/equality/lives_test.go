package equality

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/state"
)

// errCrash ends a life in the middle of whatever its tasks do.
var errCrash = errors.New("crash")

// stream is a sink's far end. It knows the right answer, when there is one, and compares what comes.
type stream struct {
	mu    sync.Mutex
	want  []string
	known bool // want is the right answer; else it is being recorded
	seq   uint64
	wrong string

	ignored bool // nobody asks what comes
}

func line(r *pipeline.Result) string {
	return fmt.Sprintf("%d chain %x position %d time %d %s", r.Seq, r.Chain, r.Pos, r.Time, r.Payload)
}

func (s *stream) Emit(_ context.Context, results []pipeline.Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range results {
		r := &results[i]
		got := line(r)
		switch {
		case s.ignored:
		case !s.known:
			s.want = append(s.want, got)
		case s.wrong != "":
		case r.Seq == 0 || r.Seq > uint64(len(s.want)):
			s.wrong = fmt.Sprintf("one too many: %s", got)
		case s.want[r.Seq-1] != got:
			s.wrong = fmt.Sprintf("got  %s\nwant %s", got, s.want[r.Seq-1])
		}
		s.seq = r.Seq
	}
	return nil
}

func (s *stream) Barrier(context.Context, pipeline.Barrier) error { return nil }

// streams are all sinks of a pipeline, over all its lives.
type streams map[string]*stream

func (all streams) sink(uid string) (pipeline.ResultSink, error) {
	s := all[uid]
	if s == nil {
		s = &stream{}
		all[uid] = s
	}
	return s, nil
}

// blocks is the journal up to a position: before each block it may ask for a checkpoint. At its end it crashes or gives io.EOF.
type blocks struct {
	entries []pipeline.Entry
	size    int
	end     error
	before  func(ctx context.Context)
}

func (b *blocks) Next(ctx context.Context) (*pipeline.Block, error) {
	if b.before != nil {
		b.before(ctx)
	}
	if len(b.entries) == 0 {
		return nil, b.end
	}
	n := min(b.size, len(b.entries))
	block := &pipeline.Block{Entries: b.entries[:n], First: b.entries[0].Pos, Last: b.entries[n-1].Pos}
	b.entries = b.entries[n:]
	return block, nil
}

func (b *blocks) Close() error { return nil }

// undisturbed gives the right answer: one run over the whole journal.
func undisturbed(t *rapid.T, g *plan.Graph, entries []pipeline.Entry) (streams, []exec.StepLedger) {
	all := streams{}
	p, err := exec.New(exec.Options{
		Graph: g, Generation: 1, Sink: all.sink, Deliver: func(pipeline.TaskSnapshot) {}, Loss: loss(entries),
		Read: func(pipeline.Position) (pipeline.BlockReader, error) {
			return &blocks{entries: entries, size: 64, end: io.EOF}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		s.known = true
	}
	return all, p.Ledger().Steps
}

// loss is a stretch in the middle of the journal's time: the marks of windows that overlap it must be the same in every life.
func loss(entries []pipeline.Entry) *exec.Loss {
	if len(entries) < 3 {
		return nil
	}
	return &exec.Loss{FromMs: entries[len(entries)/3].Stamp.Wall, ToMs: entries[2*len(entries)/3].Stamp.Wall}
}

// life is one run between two crashes.
type life struct {
	upTo    int // entries that the journal holds by its end
	block   int
	rows    int
	every   int // blocks from checkpoint to checkpoint
	abort   uint64
	back    int // checkpoints passed over at its start
	patient bool
	large   bool                                  // the backend is pebble
	tables  func(string, state.Spec) *state.Table // instead of those of the backend, when it is pebble; nil: those
	n       int                                   // instances of keyed regions
	held    int                                   // rows that a step holds before it hands on; 0: as in the field
}

func drawLives(t *rapid.T, entries int) (all []life) {
	upTo := 0
	for range rapid.IntRange(0, 3).Draw(t, "crashes") {
		upTo = rapid.IntRange(upTo, entries).Draw(t, "crash at")
		all = append(all, drawLife(t, upTo))
	}
	return append(all, drawLife(t, entries))
}

func drawLife(t *rapid.T, upTo int) life {
	return life{
		upTo: upTo, block: rapid.IntRange(1, 64).Draw(t, "block"), rows: rapid.IntRange(1, 64).Draw(t, "rows"),
		every: rapid.IntRange(1, 6).Draw(t, "checkpoint every"), abort: rapid.Uint64Range(2, 5).Draw(t, "abort every"),
		back: rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "back"), patient: rapid.Bool().Draw(t, "waits for checkpoints"),
		large: rapid.Bool().Draw(t, "large tables"),
		n:     rapid.SampledFrom([]int{1, 2, 3, 5, 8}).Draw(t, "instances"),
		held:  rapid.SampledFrom([]int{0, 1, 1, 2, 5, 30}).Draw(t, "rows held"),
	}
}

// makeTables gives how a life makes its tables; nil: in memory.
func (l *life) makeTables(t fatal) func(string, state.Spec) *state.Table {
	if l.large && l.tables != nil {
		return l.tables
	}
	return largeTables(t, l.large)
}

// keeper keeps checkpoints over crashes: in memory, or as the agent does.
type keeper interface {
	// restore gives the state to start from, nil for none, after passing over the newest `back` checkpoints as damaged.
	restore(back int) (pipeline.StateSource, error)
	// begin takes over a pipeline that is about to run; abort tells which checkpoints fail.
	begin(p *exec.Pipeline, abort func(id uint64) bool) error
	deliver(s pipeline.TaskSnapshot)
	// checkpoint is called between blocks.
	checkpoint(ctx context.Context, wait bool)
	// crash ends the life: what is not durable is gone.
	crash() error
}

// live runs all lives and compares every result. It returns what is wrong, "" when nothing is.
func live(t fatal, graph func() *plan.Graph, entries []pipeline.Entry, all streams, counts []exec.StepLedger, lives []life, k keeper) string {
	for n, l := range lives {
		from, err := k.restore(l.back)
		if err != nil {
			t.Fatalf("restore: %v", err)
		}
		g := graph()
		g.Parallelism = l.n
		o := exec.Options{Graph: g, Restore: from, Generation: 1, Sink: all.sink, Deliver: k.deliver, BatchRows: l.rows, Bound: bound(l.held), Tables: l.makeTables(t), Loss: loss(entries)}
		for _, s := range all {
			s.seq = 0
		}
		if from != nil {
			for _, m := range from.Sinks() {
				all[m.UID].seq = m.Seq
			}
		}
		end, count := errCrash, 0
		if n == len(lives)-1 {
			end = io.EOF
		}
		o.Read = func(after pipeline.Position) (pipeline.BlockReader, error) {
			left := entries[after:max(int(after), l.upTo)]
			return &blocks{entries: left, size: l.block, end: end, before: func(ctx context.Context) {
				if count++; count%l.every == 0 {
					k.checkpoint(ctx, l.patient)
				}
			}}, nil
		}
		p, err := exec.New(o)
		if err != nil && from != nil {
			return fmt.Sprintf("life %d: %v", n, err)
		}
		if err != nil {
			t.Fatalf("new pipeline: %v", err)
		}
		if err := k.begin(p, func(id uint64) bool { return id%l.abort == 0 }); err != nil {
			t.Fatalf("begin: %v", err)
		}
		if err := p.Run(context.Background()); err != nil && !errors.Is(err, errCrash) {
			return fmt.Sprintf("life %d: %v", n, err)
		}
		if err := k.crash(); err != nil {
			t.Fatalf("crash: %v", err)
		}
		for uid, s := range all {
			if s.wrong != "" {
				return fmt.Sprintf("life %d, sink %s: %s", n, uid, s.wrong)
			}
		}
		if got := p.Ledger().Steps; n == len(lives)-1 && counts != nil && !slices.Equal(got, counts) {
			return fmt.Sprintf("steps counted %+v, want %+v", got, counts)
		}
	}
	for uid, s := range all {
		if !s.ignored && s.seq != uint64(len(s.want)) {
			return fmt.Sprintf("sink %s ends at %d, want %d", uid, s.seq, len(s.want))
		}
	}
	return ""
}

// bound has a step hand on what it made when it is so many rows; 0: as in the field.
func bound(rows int) pipeline.Bound { return pipeline.Bound{Rows: rows, Bytes: 1 << 20} }
