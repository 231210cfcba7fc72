package replay

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/state"
)

// Options of one replay.
type Options struct {
	Graph  *plan.Graph
	Routes []Route
	Input  io.Reader
	// Sink prints this sink alone; "" prints all. With several sinks each line is {"sink","seq","record"}.
	Sink string
	// Format of the output: jsonl or csv.
	Format string
	Out    io.Writer
	// Dead takes the dead letters as JSON lines; nil: none.
	Dead io.Writer
	// BatchRows never shows in the results.
	BatchRows int
	// Tables makes the tables of the steps (OpenTables); nil: in memory. The results are the same.
	Tables func(uid string, spec state.Spec) *state.Table

	tidy *tidy // nil: one that puts a barrier in after barrierRecords
}

// Counts is the ledger of a replay.
type Counts struct {
	Sources []exec.SourceLedger `json:"sources"`
	Steps   []exec.StepLedger   `json:"steps"`
	Sinks   map[string]uint64   `json:"sinks"`
	Dead    uint64              `json:"dead"`
	Unused  uint64              `json:"unused"` // deliveries on topics of no source of this pipeline
}

// Run replays the whole input, drains (watermark to infinity) and returns the counts.
func Run(ctx context.Context, o Options) (Counts, error) {
	if o.BatchRows <= 0 {
		o.BatchRows = exec.BatchRows(o.Graph)
	}
	out := bufio.NewWriterSize(o.Out, 64<<10)
	if o.tidy == nil {
		o.tidy = newTidy(barrierRecords)
	}
	j := &journal{tidy: o.tidy, in: NewDeliveries(o.Input), routes: o.Routes, next: 1, rows: o.BatchRows, cache: map[string][]string{}}
	printers := map[string]*printer{}
	var lock sync.Mutex
	p, err := exec.New(exec.Options{
		Graph:      o.Graph,
		Generation: 1,
		Read:       func(pipeline.Position) (pipeline.BlockReader, error) { return j, nil },
		Sink: func(uid string) (pipeline.ResultSink, error) {
			pr, err := newPrinter(o, uid, out, &lock)
			printers[uid] = pr
			return pr, err
		},
		Deliver:   forget,
		BatchRows: o.BatchRows,
		Tables:    o.Tables,
	})
	if err != nil {
		return Counts{}, err
	}
	if o.Sink != "" && printers[o.Sink] == nil {
		return Counts{}, fmt.Errorf("no sink %q; the pipeline has %s", o.Sink, sinkNames(o.Graph))
	}
	if err := runTidily(ctx, p, o.tidy); err != nil {
		return Counts{}, err
	}
	if err := out.Flush(); err != nil {
		return Counts{}, fmt.Errorf("write output: %w", err)
	}
	c := Counts{Sinks: map[string]uint64{}, Unused: j.unused, Dead: printers[exec.DeadSink].count}
	ledger := p.Ledger()
	c.Sources, c.Steps = ledger.Sources, ledger.Steps
	for uid, pr := range printers {
		if uid != exec.DeadSink {
			c.Sinks[uid] = pr.count
		}
	}
	return c, nil
}

// runTidily returns when the pipeline has ended, and what puts barriers in has too.
func runTidily(ctx context.Context, p *exec.Pipeline, t *tidy) error {
	tidying, stop := context.WithCancel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() { t.run(tidying, p) })
	err := p.Run(ctx)
	stop()
	wait.Wait()
	return err
}

func sinkNames(g *plan.Graph) string {
	names := ""
	for i, s := range g.Sinks {
		if i > 0 {
			names += ", "
		}
		names += s.UID
	}
	return names
}
