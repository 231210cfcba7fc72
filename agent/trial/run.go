package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
)

// Outcome is the result of one case.
type Outcome struct {
	File     string `json:"file"`
	Case     string `json:"case"`
	Passed   bool   `json:"passed"`
	Reason   string `json:"reason,omitempty"` // why not
	Crashes  int    `json:"crashes"`
	Restarts int    `json:"restarts"`
	Messages int    `json:"messages"`
	Results  int    `json:"results"`
}

// Run runs every case. An error is one of the machine (no room for checkpoints); a case that does not pass is no error.
func (f *File) Run(ctx context.Context) ([]Outcome, error) {
	var all []Outcome
	for i := range f.Cases {
		c := &f.Cases[i]
		o := Outcome{File: f.name, Case: c.Name, Crashes: len(c.CrashAt), Restarts: len(c.RestartAt)}
		right, journal, err := f.undisturbed(ctx, c)
		if ctx.Err() != nil {
			return all, ctx.Err()
		}
		switch {
		case err != nil:
			o.Reason = err.Error()
		default:
			if o.Reason, err = f.judge(ctx, c, right, journal); err != nil {
				return all, err
			}
		}
		for _, e := range journal {
			if e.Kind == pipeline.EntryMessage {
				o.Messages++
			}
		}
		for uid, h := range right.sinks {
			if uid != exec.DeadSink {
				o.Results += len(h.rows)
			}
		}
		o.Passed = o.Reason == ""
		all = append(all, o)
	}
	return all, nil
}

// undisturbed runs a case without crashes and makes its journal.
func (f *File) undisturbed(ctx context.Context, c *Case) (*upstream, []pipeline.Entry, error) {
	up := newUpstream()
	var p *exec.Pipeline
	m := &maker{c: c, graph: f.graph.Graph, engine: func() engine { return p }}
	p, err := exec.New(exec.Options{
		Graph: f.graph.Graph, Generation: 1, Sink: up.sink, Deliver: func(pipeline.TaskSnapshot) {}, Logger: slog.New(slog.DiscardHandler),
		Read: func(pipeline.Position) (pipeline.BlockReader, error) { return m, nil },
	})
	if err != nil {
		return up, nil, err
	}
	if err := p.Run(ctx); err != nil && !errors.Is(err, errEnd) {
		return up, m.journal, err
	}
	return up, m.journal, nil
}

// judge compares with what is expected, then runs the case with its crashes and compares again.
func (f *File) judge(ctx context.Context, c *Case, right *upstream, journal []pipeline.Entry) (string, error) {
	for _, s := range f.graph.Graph.Sinks {
		if e, ok := c.Expect[s.UID]; ok {
			if reason := e.compare(right.sinks[s.UID].rows); reason != "" {
				return fmt.Sprintf("sink %s%s", s.UID, reason), nil
			}
		}
	}
	if dead := right.sinks[exec.DeadSink].rows; len(dead) != c.DeadLetters {
		reason := fmt.Sprintf("%d dead letters, expected %d", len(dead), c.DeadLetters)
		if len(dead) > 0 {
			reason += "\n  first: " + string(dead[0])
		}
		return reason, nil
	}
	if len(c.CrashAt) == 0 && len(c.RestartAt) == 0 {
		return "", nil
	}
	up := newUpstream()
	l := &lives{pipeline: f.graph, journal: journal, events: c.schedule(f.graph.Checkpoint.Interval), end: c.end(), up: up, spoil: f.spoil}
	if err := l.run(ctx); err != nil {
		return "", fmt.Errorf("%s: case %q: run with crashes: %w", f.name, c.Name, err)
	}
	return up.differences(right), nil
}

// compare gives "" when the rows are as expected.
func (e Expect) compare(rows [][]byte) string {
	if e.Count != nil {
		if len(rows) != *e.Count {
			return fmt.Sprintf(": %d results, expected %d", len(rows), *e.Count)
		}
		return ""
	}
	for i, want := range e.Rows {
		if i >= len(rows) {
			text, _ := json.Marshal(want) // what YAML gave has a JSON form, or equal says so below
			return fmt.Sprintf(": %d results, expected %d; the first that is missing: %s", len(rows), len(e.Rows), text)
		}
		if reason := matches(want, rows[i]); reason != "" {
			return fmt.Sprintf(", result %d: %s\n  got %s", i+1, reason, rows[i])
		}
	}
	if len(rows) > len(e.Rows) {
		return fmt.Sprintf(": %d results, expected %d; the first too many: %s", len(rows), len(e.Rows), rows[len(e.Rows)])
	}
	return ""
}
