package exec

import (
	"github.com/weirstream/weir/pipeline"
)

// Ledger is the counts of a pipeline as of the last batch that each task handled. They are part of the checkpoint, so a
// replay counts nothing twice.
type Ledger struct {
	Sources []SourceLedger
	Steps   []StepLedger
	Sinks   []pipeline.SinkMark
}

// SourceLedger is one source. Received + Split = Rows + Tombstones + Dead.
type SourceLedger struct {
	Name string `json:"name"`
	SourceCounters
}

// StepLedger is one step.
type StepLedger struct {
	UID string `json:"uid"`
	pipeline.Counters
}

// ledger copies the task's counts.
func (t *task) ledger() *Ledger {
	l := &Ledger{}
	for _, s := range t.sources {
		l.Sources = append(l.Sources, SourceLedger{Name: s.plan.Name, SourceCounters: s.counts})
	}
	for _, u := range t.units {
		l.Steps = u.ledgers(l.Steps)
	}
	t.sort(l.Steps)
	for _, s := range t.allSinks() {
		l.Sinks = append(l.Sinks, s.mark)
	}
	return l
}

// sort puts steps into the order of the plan: those of a region need not stand side by side. They are few, and mostly in order.
func (t *task) sort(steps []StepLedger) {
	for i := range steps {
		for j := i; j > 0 && t.order[steps[j].UID] < t.order[steps[j-1].UID]; j-- {
			steps[j], steps[j-1] = steps[j-1], steps[j]
		}
	}
}

// Ledger joins what the tasks published.
func (p *Pipeline) Ledger() Ledger {
	var all Ledger
	for _, t := range p.tasks {
		l := t.counts.Load()
		all.Sources = append(all.Sources, l.Sources...)
		all.Steps = append(all.Steps, l.Steps...)
		all.Sinks = append(all.Sinks, l.Sinks...)
	}
	return all
}

// TaskStatus is one task as it stands.
type TaskStatus struct {
	Name    string
	Handled pipeline.Position // it has worked through everything up to here
	Regions []RegionStatus
}

// RegionStatus is a keyed region: which steps run in how many instances, and how many rows each has taken since the start. Uneven
// numbers mean skewed keys.
type RegionStatus struct {
	Steps []string
	Rows  []uint64 // per instance
}

// Status tells how far each task is.
func (p *Pipeline) Status() (all []TaskStatus) {
	for _, t := range p.tasks {
		s := TaskStatus{Name: t.name, Handled: pipeline.Position(t.done.Load())}
		for _, u := range t.units {
			if r, ok := u.(*region); ok {
				s.Regions = append(s.Regions, r.status())
			}
		}
		all = append(all, s)
	}
	return all
}

func (r *region) status() (s RegionStatus) {
	for _, g := range r.groups {
		s.Steps = append(s.Steps, g.uid)
	}
	for i := range r.lanes {
		s.Rows = append(s.Rows, r.lanes[i].rows.Load())
	}
	return s
}
