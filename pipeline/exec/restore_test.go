package exec

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/state"
)

// checkpoint is a committed snapshot in memory.
type checkpoint struct {
	position pipeline.Position
	entries  map[string]map[[2]string]string // uid/table -> (key, sub) -> value
	specs    map[string]state.Spec
	sinks    []pipeline.SinkMark
	emitted  map[string]int // lines of each sink at the barrier
}

func (c *checkpoint) Entries(uid, name string, f func(key, sub, val []byte) error) (state.Spec, bool, error) {
	spec, ok := c.specs[uid+"/"+name]
	for k, v := range c.entries[uid+"/"+name] {
		if err := f([]byte(k[0]), []byte(k[1]), []byte(v)); err != nil {
			return spec, ok, err
		}
	}
	return spec, ok, nil
}
func (c *checkpoint) Sinks() []pipeline.SinkMark  { return c.sinks }
func (c *checkpoint) Position() pipeline.Position { return c.position }

// coordinator commits or aborts snapshots as they come, like ../../snapshot does.
type coordinator struct {
	mu      sync.Mutex
	tasks   int
	open    map[uint64][]pipeline.TaskSnapshot
	abort   func(id uint64) bool
	current *checkpoint
	err     error
}

func (c *coordinator) deliver(s pipeline.TaskSnapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := s.Barrier.ID
	c.open[id] = append(c.open[id], s)
	if len(c.open[id]) < c.tasks {
		return
	}
	next := &checkpoint{position: s.Barrier.Position, entries: map[string]map[[2]string]string{}, specs: map[string]state.Spec{}}
	if c.current != nil {
		for k, m := range c.current.entries {
			next.entries[k] = maps.Clone(m)
		}
		maps.Copy(next.specs, c.current.specs)
	}
	for _, snap := range c.open[id] {
		next.sinks = append(next.sinks, snap.Sinks...)
		for _, part := range snap.Parts {
			if c.abort(id) {
				part.Frozen.Abort()
				continue
			}
			c.apply(next, part)
		}
	}
	if !c.abort(id) {
		c.current = next
	}
}

// idle tells whether barrier id is done with: one at a time, as in ../../snapshot, else an abort would leave a hole (RULES 15).
func (c *coordinator) idle(id uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return id == 0 || id == 1000 || len(c.open[id]) == c.tasks
}

func (c *coordinator) apply(next *checkpoint, part pipeline.StatePart) {
	name := part.UID + "/" + part.Spec.Name
	next.specs[name] = part.Spec
	if next.entries[name] == nil {
		next.entries[name] = map[[2]string]string{}
	}
	err := part.Frozen.Encode(func(key, sub, val []byte, deleted bool) error {
		k := [2]string{string(key), string(sub)}
		if deleted {
			delete(next.entries[name], k)
		} else {
			next.entries[name][k] = string(val)
		}
		return nil
	})
	if err != nil {
		c.err = err
	}
	part.Frozen.Commit()
}

// barriers is a finite journal that asks for a barrier before some of its blocks.
type barriers struct {
	memory
	before func()
}

func (b *barriers) Next(ctx context.Context) (*pipeline.Block, error) {
	b.before()
	return b.memory.Next(ctx)
}

// runWithBarriers replays with a barrier before every n-th block, and gives the last committed checkpoint.
func runWithBarriers(t *rapid.T, g *plan.Graph, entries []pipeline.Entry, block, every int, restore *checkpoint, abort func(uint64) bool) (outcome, *checkpoint) {
	return runFaulty(t, g, entries, block, every, restore, abort, regionFault{})
}

func runFaulty(t *rapid.T, g *plan.Graph, entries []pipeline.Entry, block, every int, restore *checkpoint, abort func(uint64) bool, f regionFault) (outcome, *checkpoint) {
	sinks := map[string]*collect{}
	c := &coordinator{tasks: len(g.Tasks), open: map[uint64][]pipeline.TaskSnapshot{}, abort: abort, current: restore}
	o := Options{
		Graph: g, Generation: 1, BatchRows: block, Deliver: c.deliver, fault: f,
		Sink: func(uid string) (pipeline.ResultSink, error) { sinks[uid] = &collect{}; return sinks[uid], nil },
	}
	if restore != nil {
		o.Restore = restore
	}
	var p *Pipeline
	blocks, id := 0, uint64(0)
	if restore != nil {
		id = 1000
	}
	o.Read = func(after pipeline.Position) (pipeline.BlockReader, error) {
		return &barriers{memory{entries: entries[after:], block: block}, func() {
			if blocks++; blocks%every == 0 && c.idle(id) {
				id++
				if err := p.Inject(context.Background(), id); err != nil {
					t.Error(err)
				}
			}
		}}, nil
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if c.err != nil {
		t.Fatal(c.err)
	}
	all := outcome{}
	all.add(sinks)
	return all, c.current
}

// TestRestoreContinuesTheStreams is replay equality: whatever checkpoint a run is restored from, and whatever checkpoints were aborted
// before it, what the two runs emit is one stream, byte for byte.
func TestRestoreContinuesTheStreams(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := journalOf(t)
		graph := rapid.SampledFrom([]func() *plan.Graph{oneTask, threeTasks})
		want := run(t, oneTask(), entries, len(entries), 1000, nil)
		aborted := rapid.Uint64Range(0, 3).Draw(t, "aborted")
		block := rapid.IntRange(1, 10).Draw(t, "block")
		every := rapid.IntRange(1, 4).Draw(t, "every")
		cut := entries[:rapid.IntRange(0, len(entries)).Draw(t, "crash")]
		_, saved := runWithBarriers(t, graph.Draw(t, "before")(), cut, block, every, nil, func(id uint64) bool { return id%4 == aborted })
		if saved == nil {
			return
		}
		// The checkpoint of a drained run is not one of a crashed run: only those before the end count, and barriers come before blocks.
		got, _ := runWithBarriers(t, graph.Draw(t, "after")(), entries, block, every, saved, func(uint64) bool { return false })
		for uid, lines := range want {
			from := 0
			for _, m := range saved.sinks {
				if m.UID == uid {
					from = int(m.Seq)
				}
			}
			if d := cmp.Diff(append([]string{}, lines[from:]...), append([]string{}, got[uid]...)); d != "" {
				t.Fatalf("sink %s behind %d, checkpoint at %d: %s", uid, from, saved.position, d)
			}
		}
	})
}

// TestSourceStateWithoutTheLastField: what an earlier agent wrote is read.
func TestSourceStateWithoutTheLastField(t *testing.T) {
	s := newSource(testSource("a"))
	s.table = state.New(s.spec())
	s.clock = sourceClock{started: true, timeMax: 70, lastElapsed: 5e6, watermark: 65, moved: 9e6}
	s.counts.Rows = 3
	if err := s.save(); err != nil {
		t.Fatal(err)
	}
	whole, _ := s.table.Get(nil)
	for _, c := range []struct {
		bytes int
		moved int64
	}{{sourceStateBytes, 9e6}, {sourceStateBytes1, 9e6}, {sourceStateBytesOld, 5e6}} {
		r := newSource(testSource("a"))
		r.table = state.New(r.spec())
		if err := r.table.Load(nil, nil, whole[:c.bytes]); err != nil {
			t.Fatal(err)
		}
		if err := r.restored(); err != nil {
			t.Fatal(err)
		}
		want := s.clock
		want.moved = c.moved
		if r.clock != want || r.counts != s.counts {
			t.Errorf("%d bytes: got %+v, %+v", c.bytes, r.clock, r.counts)
		}
	}
	bad := newSource(testSource("a"))
	bad.table = state.New(bad.spec())
	if err := bad.table.Load(nil, nil, whole[:sourceStateBytesOld-1]); err != nil {
		t.Fatal(err)
	}
	if err := bad.restored(); !errors.Is(err, ErrState) {
		t.Errorf("got %v, want %v", err, ErrState)
	}
}
