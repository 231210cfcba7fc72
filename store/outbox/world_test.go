package outbox

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk/disktest"
)

// world is a pipeline with one stream per mode, a manifest store that is always durable, and an upstream per stream. Crashes
// throw away what the outbox did not sync. The oracle: every sequence reaches upstream once, with the payload that the
// surviving lineage made, or as a gap whose reason is kept.
type world struct {
	rnd    *rand.Rand
	m      medium
	faults faults
	config Config
	nondet bool // results differ each time they are made: rule 14, checkpoint commit only

	o         *Outbox
	sinks     []*sinkWorld
	manifests []manifest // retained, oldest first
	barrier   uint64
	inc       Incarnation
	nonce     int
	crashes   int
	elapsed   time.Duration // agent life

	crasher *disktest.Crasher // set: every point of every operation is tried
	found   error             // the first failure of such a point
}

type sinkWorld struct {
	uid   string
	opt   StreamOptions
	s     *Stream
	made  map[uint64]string // what the current lineage made
	seq   uint64
	chain uint64
	held  []heldRecord // upstream; index = seq-1
	dead  map[uint64]string
}

type heldRecord struct {
	payload string
	gap     bool
	chain   uint64
}

type manifest struct {
	id     uint64
	ranges []Range
	marks  []pipeline.SinkMark
}

func newWorld(seed uint64, nondet bool, f faults) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 7)), m: newMedium(), nondet: nondet, faults: f, config: smallConfig(), inc: Incarnation{Major: 1}}
	modes := []StreamOptions{{Mode: CheckpointCommit}, {Mode: ImmediateCommit}, {Mode: ImmediateCommit, MaxBytes: 1000, OnFull: DropOldest},
		{Mode: CheckpointCommit, TTL: time.Minute}, {Mode: ImmediateCommit, TTL: time.Minute, MaxBytes: 2000, OnFull: DropOldest}}
	if nondet {
		modes = modes[:1]
	}
	for i, opt := range modes {
		w.sinks = append(w.sinks, &sinkWorld{uid: fmt.Sprintf("sink%d", i), opt: opt, made: map[uint64]string{}, dead: map[uint64]string{}})
	}
	w.manifests = []manifest{{}}
	return w
}

func smallConfig() Config {
	c := Default()
	c.Log.SegmentBytes, c.Log.MaxBytes, c.Log.ReserveBytes, c.Log.Linger, c.Log.Compress = 8<<10, 1<<20, 0, 10*time.Second, false
	c.WindowBytes, c.ChunkBytes, c.ChunkResults, c.ReclaimBytes = 4<<10, 500, 4, 500
	return c
}

// start opens the outbox, restores a checkpoint and opens every upstream.
func (w *world) start(fallback bool) error {
	o, rec, err := Open(Options{FS: w.m.fs(), Dir: "outbox", Config: w.config,
		Stamp: func() pipeline.Stamp { return pipeline.Stamp{Elapsed: int64(w.elapsed)} }})
	if err != nil {
		return err
	}
	if len(rec.Damaged) > 0 {
		return fmt.Errorf("recovery found damage: %v", rec.Damaged)
	}
	o.faults = w.faults
	w.o = o
	for i := range w.manifests {
		if err := o.Whole(w.manifests[i].ranges); err != nil {
			return fmt.Errorf("checkpoint %d: %w", w.manifests[i].id, err)
		}
	}
	if fallback && len(w.manifests) > 1 && !w.nondet {
		w.manifests = w.manifests[:len(w.manifests)-1] // the newest was set aside
	}
	return w.restore()
}

func (w *world) restore() error {
	newest := w.manifests[len(w.manifests)-1]
	for _, k := range w.sinks {
		var err error
		if k.s, err = w.o.Stream(k.uid, k.opt); err != nil {
			return err
		}
	}
	w.inc.Minor++
	if err := w.o.Cut(context.Background(), newest.marks, w.inc); err != nil {
		return err
	}
	for _, k := range w.sinks {
		k.seq, k.chain = 0, 0
		for _, m := range newest.marks {
			if m.UID == k.uid {
				k.seq, k.chain = m.Seq, m.Chain
			}
		}
		if err := w.open(k); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) open(k *sinkWorld) error {
	n := uint64(len(k.held))
	chain := uint64(0)
	if n > 0 {
		chain = k.held[n-1].chain
	}
	_, lost, _, err := k.s.Seek(1, n, chain)
	if lost != 0 {
		return fmt.Errorf("%s: confirmed more than upstream holds: from %d", k.uid, lost)
	}
	return err
}

// pad makes results long enough for segments to fill up and be recycled.
var pad = strings.Repeat("x", 100)

func (w *world) emit(k *sinkWorld, n int) error {
	var results []pipeline.Result
	for range n {
		k.seq++
		p := fmt.Sprintf("%s result %d %s", k.uid, k.seq, pad)
		if w.nondet {
			w.nonce++
			p = fmt.Sprintf("%s made %d", p, w.nonce)
		}
		k.chain = nextChain(k.chain, []byte(p))
		k.made[k.seq] = p
		results = append(results, pipeline.Result{Seq: k.seq, Last: k.seq, Chain: k.chain, Pos: pipeline.Position(k.seq), Kind: pipeline.ResultData,
			Time: int64(k.seq), Payload: []byte(p)})
	}
	return k.s.Emit(context.Background(), results)
}

// checkpoint runs one; at stage 1 it ends after the barrier (aborted), at stage 2 after Seal (as a failed manifest or a crash
// would), at stage 3 before the release.
func (w *world) checkpoint(stage int) error {
	w.barrier++
	b := pipeline.Barrier{ID: w.barrier}
	m := manifest{id: w.barrier}
	for _, k := range w.sinks {
		if err := k.s.Barrier(context.Background(), b); err != nil {
			return err
		}
		m.marks = append(m.marks, pipeline.SinkMark{UID: k.uid, Generation: 1, Seq: k.seq, Chain: k.chain})
	}
	if stage == 1 {
		return nil
	}
	ranges, err := w.o.Seal(context.Background(), b)
	if err != nil || stage == 2 {
		return err
	}
	m.ranges = ranges
	w.manifests = append(w.manifests, m)
	if len(w.manifests) > 3 {
		w.manifests = w.manifests[1:]
	}
	if stage == 3 {
		return nil
	}
	w.o.Released(b.ID)
	return nil
}

// send moves one batch; the answer may be lost, a record may be rejected, upstream may take only a head.
func (w *world) send(k *sinkWorld, perfect bool) error {
	k.s.mu.Lock()
	idle := k.s.visible() <= k.s.cursor
	k.s.mu.Unlock()
	if idle {
		return nil
	}
	results, err := k.s.Next(context.Background(), 1+w.rnd.IntN(6), 1+w.rnd.IntN(1500))
	if err != nil {
		return err
	}
	if !perfect && w.rnd.IntN(6) == 0 {
		i := w.rnd.IntN(len(results))
		if r := &results[i]; r.Kind == pipeline.ResultData {
			k.dead[r.Seq] = string(r.Payload) // durable before the skip
			if err := k.s.Skip(context.Background(), r.Seq, r.Seq, "rejected"); err != nil {
				return err
			}
			r.Kind, r.Payload = pipeline.ResultGap, []byte("rejected")
		}
	}
	if !perfect && w.rnd.IntN(8) == 0 {
		return w.open(k) // the request was lost
	}
	if err := k.take(results); err != nil {
		return err
	}
	if !perfect && w.rnd.IntN(4) == 0 {
		return nil // the answer is late: more may be sent first
	}
	if !perfect && w.rnd.IntN(4) == 0 {
		return w.open(k) // the answer was lost
	}
	last := results[len(results)-1]
	return k.s.Confirm(last.Last, last.Chain)
}

// take is the upstream: by sequence, no holes.
func (k *sinkWorld) take(results []pipeline.Result) error {
	for i := range results {
		r := &results[i]
		for seq := r.Seq; seq <= r.Last; seq++ {
			switch n := uint64(len(k.held)); {
			case seq <= n:
				continue
			case seq > n+1:
				return fmt.Errorf("%s: hole: %d after %d", k.uid, seq, n)
			}
			h := heldRecord{payload: string(r.Payload), gap: r.Kind == pipeline.ResultGap}
			if seq == r.Last {
				h.chain = r.Chain
			}
			k.held = append(k.held, h)
		}
	}
	return nil
}

// clone copies what survives the power cut: manifests, upstreams, dead letters.
func (w *world) clone(m medium) *world {
	c := &world{rnd: rand.New(rand.NewPCG(1, 2)), m: m, faults: w.faults, config: w.config, nondet: w.nondet, manifests: slices.Clone(w.manifests),
		barrier: w.barrier, inc: w.inc, nonce: w.nonce, elapsed: w.elapsed}
	for _, k := range w.sinks {
		c.sinks = append(c.sinks, &sinkWorld{uid: k.uid, opt: k.opt, made: maps.Clone(k.made), held: slices.Clone(k.held), dead: maps.Clone(k.dead)})
	}
	return c
}

func (w *world) crash() error {
	w.crashes++
	m := w.m.crash(w.rnd)
	w.m.mem.OnOp(nil)
	if err := w.o.Close(); err != nil {
		return err
	}
	w.m = m
	w.watch()
	return w.start(w.rnd.IntN(5) == 0)
}

// step does something at random.
func (w *world) step() error {
	k := w.sinks[w.rnd.IntN(len(w.sinks))]
	w.elapsed += time.Duration(w.rnd.IntN(10)) * time.Second
	switch n := w.rnd.IntN(100); {
	case n < 35:
		return w.emit(k, 1+w.rnd.IntN(9))
	case n < 75:
		return w.send(k, false)
	case n < 93:
		return w.checkpoint(1 + w.rnd.IntN(4))
	case n < 96:
		return w.restore() // the pipeline restarts, the process goes on
	default:
		return w.crash()
	}
}

// run does steps and the final check; an error names the step.
func (w *world) run(steps int) error {
	w.watch()
	if err := w.start(false); err != nil {
		return err
	}
	for i := range steps {
		if err := w.step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		if w.found != nil {
			return fmt.Errorf("power cut within step %d: %w", i, w.found)
		}
	}
	if err := w.finish(); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	w.m.mem.OnOp(nil)
	return w.o.Close()
}
