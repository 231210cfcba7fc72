package exec

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/state"
)

// newGroup makes the instances of a step. The table $ledger of the first holds the counts of all: the state of a step does not tell
// in how many instances it ran.
func newGroup(g *plan.Step, level int, r *region, one func() *step) (*group, error) {
	made := &group{uid: g.UID, narrow: g.Narrow, rows: make([]int, r.n)}
	if g.Keyed != nil {
		made.stateKey = g.Keyed.StateKey
	}
	for i := range r.n {
		runtime.KeepAlive(separate())
		s := one()
		s.tied = true
		s.out.Track(r.ties[i], level)
		open := s.open
		if i > 0 {
			open = s.openOperator
		}
		if err := open(); err != nil {
			return nil, err
		}
		made.instances = append(made.instances, &instance{step: s, ties: r.ties[i], feed: feed{me: uint8(i)}})
	}
	if !r.fault.unlimited {
		made.joinLimits()
	}
	return made, nil
}

// joinLimits makes max_keys of each table one limit over all instances.
func (g *group) joinLimits() {
	for n, t := range g.instances[0].tables {
		if t.Spec().MaxKeys == 0 {
			continue
		}
		var tables []*state.Table
		for _, s := range g.instances {
			tables = append(tables, s.table(n))
		}
		g.limits = append(g.limits, state.NewLimit(tables))
	}
}

// table gives the n-th table of the step as its first instance counts them, whose table 0 is the ledger.
func (s *instance) table(n int) *state.Table {
	if s.counters == nil {
		return s.tables[n-1]
	}
	return s.tables[n]
}

// sum adds up what the instances counted.
func (g *group) sum() (c pipeline.Counters) {
	for _, s := range g.instances {
		k := s.out.Counters
		c.In, c.Emitted, c.Late, c.Dropped, c.Dead = c.In+k.In, c.Emitted+k.Emitted, c.Late+k.Late, c.Dropped+k.Dropped, c.Dead+k.Dead
	}
	return c
}

func (g *group) timers() (elapsed, eventTime int64) {
	elapsed, eventTime = pipeline.NoDeadline, pipeline.NoDeadline
	for _, s := range g.instances {
		if !s.timeless {
			e, t := s.op.Timers()
			elapsed, eventTime = min(elapsed, e), min(eventTime, t)
		}
	}
	return elapsed, eventTime
}

// save writes the ledger of the whole step; merge is that of the region's inputs, for the step that reads them.
func (g *group) save(merge *merger) error {
	due, _ := g.timers()
	return g.instances[0].saveLedger(ledgerOf(g.sum(), merge, g.instances[0].timed(due), g.instances[0].ticked))
}

// freeze gives the tables of all instances; those of one name together are the table of the step.
func (g *group) freeze(parts []pipeline.StatePart) []pipeline.StatePart {
	for _, s := range g.instances {
		parts = s.freeze(parts)
	}
	return parts
}

// loads are the tables that a checkpoint fills: what it holds is dealt out to the owners of the keys.
func (g *group) loads(r *region, into []tableLoad) []tableLoad {
	first := g.instances[0]
	for n, t := range first.tables {
		l := tableLoad{uid: g.uid, want: t.Spec(), load: t.Load}
		if t != first.counters {
			l.load, l.older = g.deal(n, r), g.dealOlder(n, r)
		}
		into = append(into, l)
	}
	return into
}

// restore lets each instance rebuild its indexes from the tables, which were filled if there is a checkpoint.
func (g *group) restore(from pipeline.StateSource, r *region, reached int64) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("step %s: panic over restored state: %v\n%s", g.uid, p, debug.Stack())
		}
	}()
	first := g.instances[0]
	if from != nil {
		if err := first.loadLedger(r.mergerOf(g)); err != nil {
			return err
		}
		for _, s := range g.instances[1:] {
			s.ticked = first.ticked
		}
		for _, s := range g.instances {
			s.tell(reached)
		}
	}
	for _, s := range g.instances {
		if err := s.op.Restored(); err != nil {
			return fmt.Errorf("step %s: rebuild from state: %w", g.uid, err)
		}
	}
	return nil
}

// deal loads an entry of the n-th table into the instance that owns its key.
func (g *group) deal(n int, r *region) func(key, sub, val []byte) error {
	name := g.instances[0].tables[n].Spec().Name
	return func(key, sub, val []byte) error {
		owner := r.owner(g.stateKey(name, key))
		if r.fault.wrongKeeper {
			owner = (owner + 1) % r.n
		}
		return g.instances[owner].table(n).Load(key, sub, val)
	}
}

// dealOlder likewise for entries of a lower version.
func (g *group) dealOlder(n int, r *region) func(version uint16) func(key, sub, val []byte) error {
	name := g.instances[0].tables[n].Spec().Name
	if g.instances[0].older(name) == nil {
		return nil
	}
	return func(version uint16) func(key, sub, val []byte) error {
		var loads []func(key, sub, val []byte) error
		for _, s := range g.instances {
			load := s.older(name)(version)
			if load == nil {
				return nil
			}
			loads = append(loads, load)
		}
		return func(key, sub, val []byte) error { return loads[r.owner(g.stateKey(name, key))](key, sub, val) }
	}
}

// mergerOf is the merge in front of a step: that of the region's inputs for a step that reads them.
func (r *region) mergerOf(g *group) *merger {
	if g.instances[0].feed.inner != nil {
		return nil
	}
	return r.merge
}

func (r *region) save() error {
	for _, g := range r.groups {
		if err := g.save(r.mergerOf(g)); err != nil {
			return err
		}
	}
	return nil
}

func (r *region) freeze(parts []pipeline.StatePart) []pipeline.StatePart {
	for _, g := range r.groups {
		parts = g.freeze(parts)
	}
	return parts
}

func (r *region) loads(into []tableLoad) []tableLoad {
	for _, g := range r.groups {
		into = g.loads(r, into)
	}
	return into
}

func (r *region) restore(from pipeline.StateSource, reached int64) error {
	for _, g := range r.groups {
		if err := g.restore(from, r, reached); err != nil {
			return err
		}
	}
	return nil
}

func (r *region) timers() (elapsed, eventTime int64) {
	elapsed, eventTime = pipeline.NoDeadline, pipeline.NoDeadline
	for _, g := range r.groups {
		e, t := g.timers()
		elapsed, eventTime = min(elapsed, e), min(eventTime, t)
	}
	return elapsed, eventTime
}

func (r *region) ledgers(into []StepLedger) []StepLedger {
	for _, g := range r.groups {
		into = append(into, StepLedger{UID: g.uid, Counters: g.sum()})
	}
	return into
}

func (r *region) refused(into []pipeline.DeadRow) []pipeline.DeadRow {
	for _, g := range r.groups {
		into = g.gatherDead(r.fault, into)
	}
	return into
}

func (r *region) collect(into []*pipeline.Out) []*pipeline.Out {
	for _, g := range r.groups {
		for _, s := range g.instances {
			into = s.step.collect(into)
		}
	}
	return into
}

func (r *region) shrink() {
	for _, g := range r.groups {
		for _, s := range g.instances {
			s.step.shrink()
		}
	}
	for _, o := range r.outs {
		o.edge = edge{}
	}
	r.entry.rows, r.entry.owners = nil, nil
}
