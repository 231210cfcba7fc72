package exec

import (
	"slices"

	"github.com/weirstream/weir/pipeline"
)

// Ledger is the counts of a pipeline as of the last batch that each task handled. They are part of the checkpoint, so a
// replay counts nothing twice.
type Ledger struct {
	Sources []SourceLedger
	Steps   []StepLedger
	Sinks   []pipeline.SinkMark
}

// SourceLedger is one source. Received = Rows + Tombstones + Dead.
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
	slices.SortFunc(l.Steps, func(a, b StepLedger) int { return t.order[a.UID] - t.order[b.UID] }) // a region's steps need not stand side by side
	for _, s := range t.allSinks() {
		l.Sinks = append(l.Sinks, s.mark)
	}
	return l
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
