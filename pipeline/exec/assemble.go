package exec

import (
	"fmt"
	"runtime"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
)

// place says where the output of a source or step is made.
type place struct {
	task int
	// step and unit are those of a step that is no part of a region.
	step *step
	unit int
	port func(port int) *edge
	// group is set for a step of a region: port then makes an output that is gathered in every batch.
	group *group
}

// assembly is the work of New: it joins the parts of a graph with pointers and channels.
type assembly struct {
	p       *Pipeline
	graph   *plan.Graph
	sources map[int]place
	steps   map[int]place
	// imported[task][ref] is the local copy of a crossing edge.
	imported []map[plan.Ref]*edge
	// wanted[from][to] are the refs that cross, in the order of first use.
	wanted map[[2]int][]plan.Ref
}

// assemble makes the tasks and gives the channels that the reader feeds: one per task that has a source.
func (p *Pipeline) assemble() ([]chan<- envelope, error) {
	g := p.options.Graph
	a := &assembly{p: p, graph: g, sources: map[int]place{}, steps: map[int]place{}, wanted: map[[2]int][]plan.Ref{}}
	order := stepOrder(g)
	for ti := range g.Tasks {
		t := &task{name: g.Tasks[ti].Name, order: order, deliver: p.options.Deliver, published: p.options.Published, slabs: p.options.Slabs, fault: p.options.fault}
		if p.instances > 1 {
			t.pool = newPool(p.instances, p.options.fault.cores(runtime.GOMAXPROCS(0)))
		}
		p.tasks = append(p.tasks, t)
		a.imported = append(a.imported, map[plan.Ref]*edge{})
		if err := a.fill(ti, t); err != nil {
			return nil, err
		}
	}
	last := p.tasks[len(p.tasks)-1]
	target, err := p.options.Sink(DeadSink)
	if err != nil {
		return nil, fmt.Errorf("open dead letters: %w", err)
	}
	last.dead = &deadSink{sink{uid: DeadSink, target: target, mark: pipeline.SinkMark{UID: DeadSink, Generation: p.options.Generation}}}
	a.watchable()
	return a.connect(), nil
}

// stepOrder numbers everything that can refuse a row: sources, steps, sinks.
func stepOrder(g *plan.Graph) map[string]int {
	order := map[string]int{}
	for _, s := range g.Sources {
		order["$source/"+s.Name] = len(order)
	}
	for _, s := range g.Steps {
		order[s.UID] = len(order)
	}
	for _, s := range g.Sinks {
		order[s.UID] = len(order)
	}
	return order
}

func (a *assembly) fill(ti int, t *task) error {
	spec := a.graph.Tasks[ti]
	for _, i := range spec.Sources {
		s := newSource(a.graph.Sources[i])
		if t.pool != nil {
			s.divide(t.pool.workers())
		}
		s.skip(a.p.options.Skip)
		s.tell(a.p.options.Ask)
		s.keep(a.p.options.Tables)
		t.sources = append(t.sources, s)
		a.sources[i] = place{task: ti, port: func(int) *edge { return &s.output }}
	}
	regions := a.regions(spec)
	for _, i := range spec.Steps {
		r, inside := regions[i]
		if inside && r.Steps[0] != i {
			continue // made with the first
		}
		make := a.step
		if inside {
			make = func(ti int, t *task, _ int) error { return a.region(ti, t, r) }
		}
		if err := make(ti, t, i); err != nil {
			return err
		}
	}
	for _, i := range spec.Sinks {
		g := a.graph.Sinks[i]
		target, err := a.p.options.Sink(g.UID)
		if err != nil {
			return fmt.Errorf("open sink %s: %w", g.UID, err)
		}
		t.sinks = append(t.sinks, &sink{
			uid: g.UID, columns: g.Columns, whole: g.Whole, input: a.edge(ti, g.From), target: target,
			mark: pipeline.SinkMark{UID: g.UID, Generation: a.p.options.Generation}, pool: t.pool, lanes: make([]encodeLane, a.p.instances),
			loss: a.p.options.Loss, marks: lossColumnsOf(g.Columns, g.Whole),
		})
	}
	return nil
}

// regions tells which steps of a task run in instances.
func (a *assembly) regions(t plan.Task) map[int]*plan.Region {
	of := map[int]*plan.Region{}
	for n := range t.Regions {
		for _, i := range t.Regions[n].Steps {
			if a.p.instances > 1 {
				of[i] = &t.Regions[n]
			}
		}
	}
	return of
}

// made makes a step, or one instance of it, with what the options say of it.
func (a *assembly) made(g *plan.Step, inputs int) *step {
	s := newStep(g.UID, g.New(), inputs, g.Ports)
	s.skips, s.newTable = skipsOf(a.p.options.Skip, g.UID), a.p.options.Tables
	return s
}

func (a *assembly) step(ti int, t *task, i int) error {
	g := a.graph.Steps[i]
	s := a.made(g, len(g.Inputs))
	if s.merge != nil {
		s.merge.without(g.Clockless)
	}
	if err := s.open(); err != nil {
		return err
	}
	for n, ref := range g.Inputs {
		s.inputs[n] = a.edge(ti, ref)
	}
	t.units = append(t.units, s)
	a.steps[i] = place{task: ti, step: s, unit: len(t.units) - 1, port: func(port int) *edge { return &s.outputs[port] }}
	return nil
}

// region makes the steps of a region. What they make is gathered where somebody outside asks for it.
func (a *assembly) region(ti int, t *task, spec *plan.Region) error {
	r := newRegion(a.p.instances, t.pool, spec.Key)
	if r.merge != nil {
		r.merge.without(spec.Clockless)
	}
	r.fault = a.p.options.fault
	for n, ref := range spec.Inputs {
		r.inputs[n] = a.edge(ti, ref)
	}
	a.findGroups(ti, t, r, spec)
	groups := map[int]*group{}
	for level, i := range spec.Steps {
		of := a.graph.Steps[i]
		g, err := newGroup(of, level+1, r, func() *step { return a.made(of, 1) })
		if err != nil {
			return err
		}
		before := groups[of.Inputs[0].Step]
		if of.Inputs[0].Step < 0 {
			before = nil
		}
		r.add(g, before, of.Inputs[0].Port)
		groups[i] = g
		a.steps[i] = place{task: ti, port: func(port int) *edge { return r.output(g, port) }, group: g}
	}
	t.units = append(t.units, r)
	return nil
}

// findGroups has the decoders of a source find the groups of the keys for the region behind it: for the first, when several read it.
func (a *assembly) findGroups(ti int, t *task, r *region, spec *plan.Region) {
	if len(spec.Inputs) != 1 || spec.Inputs[0].Step >= 0 || a.sources[spec.Inputs[0].Source].task != ti {
		return
	}
	for n, i := range a.graph.Tasks[ti].Sources {
		if s := t.sources[n]; i == spec.Inputs[0].Source && s.lanes[0].key == nil {
			r.source = s
			for _, l := range s.lanes {
				l.key = spec.Key[0]
			}
		}
	}
}

// edge gives the address of an edge as task ti sees it: the producer's own, or a local copy when it crosses.
func (a *assembly) edge(ti int, ref plan.Ref) *edge {
	from := a.sources[ref.Source]
	if ref.Step >= 0 {
		from = a.steps[ref.Step]
	} else {
		ref.Port = 0
	}
	if from.port == nil {
		panic(fmt.Sprintf("BUG: task %d reads %+v before it is made", ti, ref))
	}
	if from.task == ti {
		return from.port(ref.Port)
	}
	if e, ok := a.imported[ti][ref]; ok {
		return e
	}
	pair := [2]int{from.task, ti}
	a.wanted[pair] = append(a.wanted[pair], ref)
	e := &edge{}
	a.imported[ti][ref] = e
	return e
}

// connect makes the channels. The last task hears from every other one, so that it gets all dead letters.
func (a *assembly) connect() (readers []chan<- envelope) {
	tasks := a.p.tasks
	for ti, t := range tasks {
		if len(t.sources) > 0 {
			ch := make(chan envelope, channelDepth)
			readers = append(readers, ch)
			t.inputs = append(t.inputs, nil)
			t.imports = append(t.imports, nil)
			t.ahead = newAhead(ch, t.fault)
			t.ahead.divide(t.pool, t.sources)
		}
		for from := range ti {
			refs := a.wanted[[2]int{from, ti}]
			if len(refs) == 0 && ti != len(tasks)-1 {
				continue
			}
			a.join(tasks[from], t, ti, refs)
		}
	}
	for _, t := range tasks {
		t.keepSlots()
		t.flow.fault = a.p.options.flow
		t.letFlow(a.p.options.Bound)
	}
	return readers
}

func (a *assembly) join(from, to *task, ti int, refs []plan.Ref) {
	ch := make(chan envelope, channelDepth)
	var exports, imports []*edge
	for _, ref := range refs {
		made := a.sources[ref.Source]
		if ref.Step >= 0 {
			made = a.steps[ref.Step]
		}
		exports = append(exports, made.port(ref.Port))
		imports = append(imports, a.imported[ti][ref])
	}
	from.outputs = append(from.outputs, ch)
	from.exports = append(from.exports, exports)
	from.toLast = append(from.toLast, ti == len(a.p.tasks)-1)
	to.inputs = append(to.inputs, ch)
	to.imports = append(to.imports, imports)
}

// loads are all tables.
func (p *Pipeline) loads() (all []tableLoad) {
	for _, t := range p.tasks {
		for _, s := range t.sources {
			all = append(all, tableLoad{uid: sourceUID(s.plan.Name), want: s.table.Spec(), load: s.table.Load, older: s.older})
		}
		for _, u := range t.units {
			all = u.loads(all)
		}
	}
	return all
}

// restore fills every table and mark from the checkpoint, or starts empty.
func (p *Pipeline) restore() error {
	from := p.options.Restore
	marks := map[string]pipeline.SinkMark{}
	if from != nil {
		for _, m := range from.Sinks() {
			marks[m.UID] = m
		}
	}
	if from != nil {
		if err := loadAll(from, p.loads()); err != nil {
			return err
		}
	}
	reached := int64(-1)
	for _, t := range p.tasks {
		for _, s := range t.sources {
			if err := s.restored(); err != nil {
				return err
			}
			reached = max(reached, s.clock.moved)
		}
	}
	for _, t := range p.tasks {
		for _, u := range t.units {
			if err := u.restore(from, reached); err != nil {
				return err
			}
		}
		for _, s := range t.allSinks() {
			if m, ok := marks[s.uid]; ok {
				s.mark = m
			}
		}
		t.publish()
	}
	return nil
}
