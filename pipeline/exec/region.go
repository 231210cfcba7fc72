package exec

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// region runs a set of keyed steps, and the stateless ones between them, in n instances (../DESIGN.md, "Keyed regions"). Its task's goroutine
// owns it and lends the instances to the helpers of the pool during a batch.
type region struct {
	n      int
	pool   *pool
	inputs []*edge
	keys   [][]int // per input: slots of the key
	source *source // the only input, whose decoders find the groups of this region's key; nil: none does
	merge  *merger // nil with one input
	heads  []int
	entry  entry
	lanes  []lane
	groups []*group // in plan order
	stages [][]*group
	ties   []*pipeline.Ties // per instance
	outs   []*gathered
	fault  regionFault
}

// regionFault is a mistake planted by a test, to show that the tests would find it.
type regionFault struct {
	byArrival   bool // the gather takes the instances one after the other, as if the first to end came first
	tieless     bool // the gather goes by place alone
	wrongKeeper bool // restored state is kept by other instances than those that get the rows
	unlimited   bool // each instance counts its own keys alone
	overtaking  bool // a barrier goes before the batches that wait to be decoded
	unordered   bool // of those batches the second comes first
	earlyGiven  bool // the task gives its slots to others before the sinks have read them
	// No mistakes, but ways to test: every batch is divided however small, or worked on as near a limit.
	eager, together bool
}

// cores is how many there are for a pool: a test that divides all it can has helpers on a machine of one core as well.
func (f regionFault) cores(n int) int {
	if f.eager {
		return max(n, 3)
	}
	return n
}

// lane is what one helper needs to find the owners of rows.
type lane struct {
	key   []byte
	owned []uint32      // per instance: rows found in this batch
	rows  atomic.Uint64 // that the instance of this number has taken since the start, for Status
	_     [64]byte      // no cache line with the next one
}

// group is one step of a region: its instances.
type group struct {
	uid       string
	instances []*instance
	stateKey  func(table string, key []byte) []byte // nil: stateless
	limits    []*state.Limit
	narrow    bool  // plan.Step.Narrow
	bounded   bool  // it gets no more rows than the region's entry gives the instance: all before it in the region are narrow
	rows      []int // per instance, for the limits
	dead      merging[tiedDead]
}

// aloneRows: less rows than this are not worth waking a helper for (some 5 us each).
const aloneRows = 48

func newRegion(n int, p *pool, keys [][]int) *region {
	r := &region{n: n, pool: p, keys: keys, inputs: make([]*edge, len(keys)), heads: make([]int, len(keys)), lanes: make([]lane, n)}
	if len(keys) > 1 {
		r.merge = newMerger(len(keys))
	}
	r.entry.owned = make([]int, n)
	for i := range n {
		r.ties = append(r.ties, &pipeline.Ties{})
		r.lanes[i].owned = make([]uint32, n, n+32) // no cache line with that of another lane
	}
	return r
}

// add puts the next step into the region, behind a port of an earlier one; before is nil for one that reads the region's input. A step with a
// limit may run behind others in one fork when it is known beforehand how many rows it gets at most; else it begins a stage.
func (r *region) add(g *group, before *group, port int) {
	g.bounded = before == nil || before.bounded && before.narrow
	for i, s := range g.instances {
		s.feed.entry = &r.entry
		if before != nil {
			s.feed.inner = &before.instances[i].outputs[port]
		}
	}
	if len(r.groups) == 0 && r.pool != nil && r.pool.workers() > 1 {
		for _, s := range g.instances {
			s.feed.far = true
			if r.merge == nil {
				s.feed.key = r.keys[0]
			}
		}
	}
	r.groups = append(r.groups, g)
	if n := len(r.stages); n > 0 && (len(g.limits) == 0 || g.bounded) {
		r.stages[n-1] = append(r.stages[n-1], g)
		return
	}
	r.stages = append(r.stages, []*group{g})
}

// output gives the gathered output of a step.
func (r *region) output(g *group, port int) *edge {
	for _, o := range r.outs {
		if o.group == g && o.port == port {
			return &o.edge
		}
	}
	o := &gathered{group: g, port: port}
	r.outs = append(r.outs, o)
	return &o.edge
}

// run works through one batch.
func (r *region) run(ticks []pipeline.Tick) error {
	if err := r.open(); err != nil {
		return err
	}
	for _, t := range r.ties {
		t.Reset()
	}
	for _, stage := range r.stages {
		if err := r.stage(stage, ticks); err != nil {
			return err
		}
	}
	for _, o := range r.outs {
		o.gather(r.fault)
	}
	return nil
}

// open merges the inputs and finds the owner of each row.
func (r *region) open() error {
	e := &r.entry
	if r.merge == nil {
		e.rows, e.marks = r.inputs[0].rows, r.inputs[0].marks
	} else {
		r.mergeInputs()
	}
	if cap(e.owners) < len(e.rows) {
		e.owners = make([]uint8, max(len(e.rows), 2*cap(e.owners)))
	}
	e.owners = e.owners[:len(e.rows)]
	if r.dealt() {
		return nil
	}
	err := r.fork(len(e.rows), func(part int) error {
		from, to := share(len(e.rows), part, r.n)
		return r.own(&r.lanes[part], from, to)
	})
	clear(e.owned)
	for i := range r.lanes {
		for n, rows := range r.lanes[i].owned {
			e.owned[n] += int(rows)
		}
	}
	r.count()
	return err
}

func (r *region) count() {
	for i := range r.lanes {
		r.lanes[i].rows.Add(uint64(r.entry.owned[i]))
	}
}

// dealt finds the owners by the groups that the decoders found, if they did.
func (r *region) dealt() bool {
	groups, e := r.inputs[0].groups, &r.entry
	if r.source == nil || groups == nil {
		return false
	}
	clear(e.owned)
	for i, g := range groups {
		if g == keyless {
			return false
		}
		owner := uint8(pipeline.GroupOwner(int(g), r.n))
		e.owners[i] = owner
		e.owned[owner]++
	}
	r.count()
	return true
}

// share is the part-th of n about equal parts of a list.
func share(length, part, n int) (from, to int) { return length * part / n, length * (part + 1) / n }

func (r *region) mergeInputs() {
	e := &r.entry
	e.marks = r.merge.mergeMarks(r.inputs)
	e.rows, e.from = e.rows[:0], e.from[:0]
	clear(r.heads)
	for in := nextRow(r.inputs, r.heads); in >= 0; in = nextRow(r.inputs, r.heads) {
		e.rows = append(e.rows, r.inputs[in].rows[r.heads[in]])
		e.from = append(e.from, uint8(in))
		r.heads[in]++
	}
}

// own finds the owners of a run of rows.
func (r *region) own(l *lane, from, to int) error {
	e := &r.entry
	key := r.keys[0]
	clear(l.owned)
	for i := from; i < to; i++ {
		if e.from != nil {
			key = r.keys[e.from[i]]
		}
		l.key = l.key[:0]
		for _, slot := range key {
			var err error
			if l.key, err = pipeline.AppendKey(l.key, e.rows[i].Slots[slot]); err != nil {
				return fmt.Errorf("BUG: an error value stands in a row: %w", err)
			}
		}
		owner := r.owner(l.key)
		e.owners[i] = uint8(owner)
		l.owned[owner]++
	}
	return nil
}

func (r *region) owner(key []byte) int { return pipeline.KeyOwner(key, r.n) }

// fork runs f for every instance, side by side when there is enough to do.
func (r *region) fork(rows int, f func(part int) error) error {
	if rows < aloneRows && !r.fault.eager {
		return alone(r.n, f)
	}
	return r.pool.do(f)
}

// stage runs some steps behind one another. While nothing can meet a limit, all of them in one fork; else one by one.
func (r *region) stage(groups []*group, ticks []pipeline.Tick) error {
	if r.apart(groups) {
		return r.fork(len(r.entry.rows), func(part int) error {
			for _, g := range groups {
				if err := g.instances[part].run(ticks); err != nil {
					return err
				}
			}
			return nil
		})
	}
	for _, g := range groups {
		run := g.together
		if g.apart(g.given()) && !r.fault.together {
			run = func(ticks []pipeline.Tick) error {
				return r.fork(len(r.entry.rows), func(part int) error { return g.instances[part].run(ticks) })
			}
		}
		if err := run(ticks); err != nil {
			return err
		}
	}
	return nil
}

// apart tells whether the instances may run through these steps side by side, by what is known before the first of them has run.
func (r *region) apart(groups []*group) bool {
	if r.fault.together {
		return false
	}
	for i, g := range groups {
		rows := r.entry.owned // no more than that
		if i == 0 {
			rows = g.given()
		}
		if !r.fault.unlimited && !g.apart(rows) {
			return false
		}
	}
	return true
}

// given is how many rows each instance gets.
func (g *group) given() []int {
	for i, s := range g.instances {
		if s.feed.inner == nil {
			return s.feed.entry.owned
		}
		g.rows[i] = len(s.feed.inner.rows)
	}
	return g.rows
}

// apart tells whether the instances may run side by side: with at most so many rows each, none can meet a limit.
func (g *group) apart(rows []int) bool {
	for _, l := range g.limits {
		if !l.Apart(rows) {
			return false
		}
	}
	return true
}

// together works through the batch row by row in the total order, over all instances, so that limits count as in one.
func (g *group) together(ticks []pipeline.Tick) (err error) {
	at := g.instances[0]
	defer func() {
		if r := recover(); r != nil {
			err = at.failed(r, debug.Stack())
		}
	}()
	for _, l := range g.limits {
		l.Together()
	}
	for _, s := range g.instances {
		s.begin(ticks)
		defer s.unlock()
	}
	for {
		next := g.next()
		if next == nil {
			break
		}
		place := next.feed.rows()[next.feed.next].At
		for _, s := range g.instances { // what time does to any key comes before the row
			at = s
			s.advanceTo(place)
		}
		at = next
		next.work()
	}
	for _, s := range g.instances {
		at = s
		s.end()
	}
	return nil
}

// next is the instance with the first row of all.
func (g *group) next() (first *instance) {
	for _, s := range g.instances {
		if !s.feed.more() {
			continue
		}
		if first == nil || compareRows(s.head(), first.head()) < 0 {
			first = s
		}
	}
	return first
}

func (s *instance) head() placed {
	return placed{at: s.feed.rows()[s.feed.next].At, tie: s.feed.tie(), of: s.ties}
}
